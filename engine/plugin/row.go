package plugin

// Size estimates the bytes of a row, for the figures that the engine shows: a text or bytes count their length, a number 8, a boolean 1 and
// null nothing.
func (r Row) Size() int {
	n := 0
	for _, v := range r {
		switch v := v.(type) {
		case nil:
		case bool:
			n++
		case string:
			n += len(v)
		case []byte:
			n += len(v)
		default:
			n += 8
		}
	}
	return n
}
