package clientproto

// handlers are the requests that are served, by id. Authentication is not among them: it comes first.
var handlers = map[uint32]handler{
	0x000300: addClusterViewListener,
	0x000400: createProxy,
	0x000600: registered, // a lost partition: see the member's own metrics
	0x000700: deregistered,
	0x000900: registered,
	0x000a00: deregistered,
	0x000b00: empty,
	0x000c00: empty,
	0x000e00: empty,
	0x000f00: registered, // members wait for backups themselves
	0x001000: empty,
	0x001100: registered,
	0x001200: deregistered,

	0x010100: put,
	0x010200: get,
	0x010300: remove,
	0x010400: replace,
	0x010500: replaceIfSame,
	0x010600: containsKey,
	0x010e00: putIfAbsent,
	0x010f00: set,
	0x012a00: size,
	0x012b00: isEmpty,
}
