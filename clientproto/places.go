package clientproto

import (
	"gridnode/grid"
	"gridnode/imap"
)

// The classes of predicates that say in which partitions to look.
const (
	classPlace  = 16
	classPlaces = 21
)

// isSet are the types of Java's sets; true: what orders a set comes first.
var isSet = map[int32]bool{-37: false, -38: true, -39: false, -40: false, -41: true}

// places reads the keys with which a predicate begins that says where to look, if it does, and returns what is to be looked for there. In other
// predicates such a one means nothing.
func (q *call) places(d data) (target data, err error) {
	r := newObjectReader(d)
	if d.isNull() || r.named() {
		return d, nil
	}
	factory, class := r.identified()
	if r.err != nil || factory != factoryPredicates || class != classPlace && class != classPlaces {
		return d, nil // whatever is wrong with it, is found where it is read
	}
	for _, k := range r.places(class == classPlaces) {
		p, ok := q.c.s.cfg.Maps.Partition(imap.Key{Data: k})
		if !ok {
			return d, grid.ErrNotJoined
		}
		q.in = append(q.in, p)
	}
	if r.err == nil && len(q.in) == 0 {
		r.fail("a predicate for the partitions of no key")
	}
	return data{Data: r.b}, r.err
}

// places reads one key, or a set of them.
func (r *objectReader) places(several bool) (keys []imap.Data) {
	n := 1
	if several {
		typ := r.int()
		ordered, ok := isSet[typ]
		if !ok || ordered && r.int() != typeNull {
			r.fail("an object of type %d where a plain set of keys should be, such as a HashSet", typ)
		}
		n = r.count()
	}
	for range n {
		from := r.b
		r.value()
		if r.err != nil {
			return nil
		}
		keys = append(keys, from[:len(from)-len(r.b)])
	}
	return keys
}
