package clientproto

import (
	"context"
	"fmt"

	"gridnode/imap"
)

// class is the class of an object that a client sends to be run by members: the name under which they know it, and what the object wrote of
// itself.
func (q *call) class(field string) (name string, arg imap.Data, err error) {
	r := newObjectReader(q.data(field))
	factory, class := r.identified()
	if r.err != nil {
		return "", nil, r.err
	}
	return ProcessorName(factory, class), imap.Raw(r.b), nil
}

// ProcessorName is the name under which the members have to know the entry processor or interceptor of a client's class. Its argument is what
// the client's object wrote of itself.
func ProcessorName(factory, class int32) string {
	return fmt.Sprintf("hazelcast/%d/%d", factory, class)
}

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

func executeOnKeys(ctx context.Context, q *call) ([]byte, error) {
	return q.executeOn(ctx, q.keys())
}

// executeWhere runs the processor on the entries that are found first, on each by itself.
func executeWhere(ctx context.Context, q *call) ([]byte, error) {
	p, err := q.where()
	if err != nil {
		return nil, err
	}
	list, _, err := q.imap().KeysWhere(ctx, p, imap.Page{})
	if err != nil {
		return nil, queryError(err)
	}
	keys := make([]imap.Key, len(list))
	for i, k := range list {
		keys[i] = imap.Key{Data: k}
	}
	return q.executeOn(ctx, keys)
}

func (q *call) executeOn(ctx context.Context, keys []imap.Key) ([]byte, error) {
	name, arg, err := q.class("processor")
	if err != nil {
		return nil, err
	}
	list, err := q.imap().ExecuteOnKeys(ctx, keys, name, arg)
	if err != nil {
		return nil, err
	}
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
