// Package wire is the framing that members speak to each other.
//
// A frame is
//
//	u32 length of what follows | u8 kind | u8 flag | u64 correlation id | body
//
// in big-endian order. Every length is checked against its limit before anything is allocated for it. What a body means is the business of
// whoever registered the kind; control bodies are msgpack.
package wire
