package query

import (
	"cmp"
	"math/bits"
	"math/rand/v2"
)

const maxLevel = 24

// skipList holds pairs of values and a key, in the order of the values, then of the key.
type skipList struct {
	head   skipNode
	levels int
}

type skipNode struct {
	values []Value
	key    string
	next   []*skipNode
}

func newSkipList() *skipList {
	return &skipList{head: skipNode{next: make([]*skipNode, maxLevel)}, levels: 1}
}

// compareTuples compares as many values as both have: the shorter is equal to all that begin with it.
func compareTuples(a, b []Value) int {
	for i := range min(len(a), len(b)) {
		if c := Compare(a[i], b[i]); c != 0 {
			return c
		}
	}
	return 0
}

// before returns, for each level, the last node that less holds for.
func (l *skipList) before(less func(*skipNode) bool) [maxLevel]*skipNode {
	var path [maxLevel]*skipNode
	n := &l.head
	for i := l.levels - 1; i >= 0; i-- {
		for n.next[i] != nil && less(n.next[i]) {
			n = n.next[i]
		}
		path[i] = n
	}
	return path
}

func (l *skipList) find(values []Value, key string) ([maxLevel]*skipNode, *skipNode) {
	path := l.before(func(n *skipNode) bool {
		return cmp.Or(compareTuples(n.values, values), cmp.Compare(n.key, key)) < 0
	})
	if n := path[0].next[0]; n != nil && n.key == key && compareTuples(n.values, values) == 0 {
		return path, n
	}
	return path, nil
}

// insert reports whether the pair is new.
func (l *skipList) insert(values []Value, key string) bool {
	path, found := l.find(values, key)
	if found != nil {
		return false
	}
	height := min(1+bits.TrailingZeros64(rand.Uint64()|1<<62), maxLevel)
	for l.levels < height {
		path[l.levels] = &l.head
		l.levels++
	}
	n := &skipNode{values: values, key: key, next: make([]*skipNode, height)}
	for i := range height {
		n.next[i], path[i].next[i] = path[i].next[i], n
	}
	return true
}

// remove reports whether the pair was there.
func (l *skipList) remove(values []Value, key string) bool {
	path, n := l.find(values, key)
	if n == nil {
		return false
	}
	for i := range n.next {
		path[i].next[i] = n.next[i]
	}
	return true
}

// each calls fn with the keys from the first pair for which below is false to the last for which above is false.
func (l *skipList) each(below, above func([]Value) bool, fn func(key string)) {
	path := l.before(func(n *skipNode) bool { return below(n.values) })
	for n := path[0].next[0]; n != nil && !above(n.values); n = n.next[0] {
		fn(n.key)
	}
}
