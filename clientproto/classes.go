package clientproto

import (
	"context"
	"fmt"
	"slices"

	"gridnode/imap"
)

// class is what members call the object of a field, and what it wrote of itself.
func (q *call) class(field string) (name string, arg imap.Data, err error) {
	return className(q.data(field))
}

// className is what members call the class of an object that a client sends to be run by them, and what they are given of it.
func className(d data) (name string, arg imap.Data, err error) {
	r := newObjectReader(d)
	switch typ := r.int(); typ {
	case typeIdentified:
		r = newObjectReader(d)
		factory, class := r.identified()
		return ProcessorName(factory, class), imap.Raw(r.b), r.err
	case typePortable:
		return ProcessorName(r.int(), r.int()), d.Data, r.err
	case typeJava:
		class := r.javaClass()
		return JavaName(class), d.Data, r.err
	default:
		r.fail("an object of type %d where one of the members' own classes should be", typ)
		return "", nil, r.err
	}
}

const javaVersion = 0xaced0005 // with which whatever Java serialized begins

// javaClass reads the name of the class from the beginning of what Java's own serialization has written.
func (r *objectReader) javaClass() string {
	const object, description = 's', 'r'
	if uint32(r.int()) != javaVersion || r.byte() != object || r.byte() != description {
		r.fail("what Java serialized is not an object")
		return ""
	}
	return string(r.take(int(uint16(r.short()))))
}

// ProcessorName is the name under which the members have to know the entry processor, interceptor or comparator of a client's class. Its argument
// is what the client's object wrote of itself if it is identified, and the whole object if it is portable.
func ProcessorName(factory, class int32) string {
	return fmt.Sprintf("hazelcast/%d/%d", factory, class)
}

// JavaName is that name for a class that Java's own serialization has written. Its argument is the whole object.
func JavaName(class string) string { return "java/" + class }

func addInterceptor(ctx context.Context, q *call) ([]byte, error) {
	name, arg, err := q.class("interceptor")
	if err != nil {
		return nil, err
	}
	id, err := q.imap().AddInterceptor(ctx, name, arg)
	if err != nil {
		return nil, err
	}
	a := q.answer()
	a.string(id)
	return a.bytes(), nil
}

func removeInterceptor(ctx context.Context, q *call) ([]byte, error) {
	return q.yes(q.imap().RemoveInterceptor(ctx, q.text("id")))
}

func executeOnKey(ctx context.Context, q *call) ([]byte, error) {
	name, arg, err := q.class("processor")
	if err != nil {
		return nil, err
	}
	d, err := q.imap().ExecuteOnKey(ctx, q.key(), name, arg)
	if err != nil {
		return nil, err
	}
	return q.valueOrNull(d)
}

// executeOnKeys runs the processor once on each of the keys, although some clients name one twice.
func executeOnKeys(ctx context.Context, q *call) ([]byte, error) {
	name, arg, err := q.class("processor")
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	keys := slices.DeleteFunc(q.keys(), func(k imap.Key) bool {
		again := seen[string(k.Data)]
		seen[string(k.Data)] = true
		return again
	})
	list, err := q.imap().ExecuteOnKeys(ctx, keys, name, arg)
	if err != nil {
		return nil, err
	}
	return q.replies(list)
}

// executeWhere runs the processor on the entries that its predicate holds for.
func executeWhere(ctx context.Context, q *call) ([]byte, error) {
	p, err := q.where()
	if err != nil {
		return nil, err
	}
	name, arg, err := q.class("processor")
	if err != nil {
		return nil, err
	}
	list, err := q.imap().ExecuteWhere(ctx, p, name, arg)
	if err != nil {
		return nil, queryError(err)
	}
	return q.replies(list)
}

// replies is the answer that has what the processor replied, if it did.
func (q *call) replies(list []imap.Entry) ([]byte, error) {
	a := q.answer()
	a.open()
	for _, e := range list {
		if len(e.Value) > 0 {
			value(a, e.Key)
			value(a, e.Value)
		}
	}
	a.close()
	return a.bytes(), nil
}
