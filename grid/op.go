package grid

// Op is an operation on a partition. Whoever makes one may give what the store knows as such, so that there is nothing to read if the primary is on the
// same member; to others it travels as it is Encoded. It must not change, whatever becomes of the call.
type Op interface {
	// Encoded returns the operation as it travels. It may be called at once with anything.
	Encoded() []byte
}

// RawOp is an operation as it travels.
type RawOp []byte

// Encoded implements [Op].
func (r RawOp) Encoded() []byte { return r }
