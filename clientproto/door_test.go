package clientproto

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gridnode/imap"
)

// requestOf writes a request as a client does.
func requestOf(s *spec, id uint64, value func(field) any) []byte {
	e := &encoder{}
	e.begin(unfragmented)
	e.int32(int32(s.id))
	e.int64(int64(id))
	e.int32(-1)
	for _, f := range s.fields {
		if fixedSize(f.kind) > 0 {
			e.fixed(f.kind, value(f))
		}
	}
	for _, f := range s.fields {
		if fixedSize(f.kind) == 0 {
			e.framed(f.kind, value(f))
		}
	}
	return e.bytes()
}

func (e *encoder) fixed(k kind, v any) {
	switch k {
	case kBool, kByte:
		e.byte(byte(v.(int64)))
	case kInt:
		e.int32(int32(v.(int64)))
	case kLong:
		e.int64(v.(int64))
	case kUUID:
		e.uuid(v.(uuidValue))
	}
}

func (e *encoder) framed(k kind, v any) {
	if v == nil {
		e.null()
		return
	}
	switch v := v.(type) {
	case string:
		e.string(v)
	case data:
		value(e, v.Data)
	case []byte:
		e.raw(v)
	case []string:
		e.open()
		for _, s := range v {
			e.string(s)
		}
		e.close()
	case []data:
		e.open()
		for _, d := range v {
			value(e, d.Data)
		}
		e.close()
	case []entry:
		e.open()
		for _, p := range v {
			value(e, p.key.Data)
			value(e, p.value.Data)
		}
		e.close()
	case [][2]int32:
		e.raw(make([]byte, 8*len(v)))
	case []frame: // a structure with nothing in it
		e.open()
		e.close()
	default:
		panic(fmt.Sprintf("a field of kind %d: %T", k, v))
	}
}

// peer is a client that knows nothing but frames.
type peer struct {
	t    *testing.T
	conn net.Conn
	last uint64
}

// newPeer connects and authenticates.
func newPeer(t *testing.T, s *Server) *peer {
	t.Helper()
	p := &peer{t: t, conn: dial(t, s)}
	_ = p.conn.SetDeadline(time.Now().Add(20 * time.Second))
	m := p.send(unhex(t, authRequest))
	if m[0].body[answerHead] != authenticated {
		t.Fatalf("not let in: %v", m)
	}
	p.last = 100
	return p
}

// send sends a message and returns the first that comes back.
func (p *peer) send(b []byte) message {
	p.t.Helper()
	if _, err := p.conn.Write(b); err != nil {
		p.t.Fatal(err)
	}
	return p.receive()
}

func (p *peer) receive() message {
	p.t.Helper()
	m, err := readAnswer(p.conn)
	if err != nil {
		p.t.Fatal(err)
	}
	return m
}

// readAnswer is readOne for answers, whose initial frames may be shorter than requests'.
func readAnswer(r io.Reader) (m message, err error) {
	for len(m) == 0 || !m[len(m)-1].is(flagFinal) {
		var head [frameHead]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return nil, err
		}
		f := frame{flags: binary.LittleEndian.Uint16(head[4:]), body: make([]byte, binary.LittleEndian.Uint32(head[:])-frameHead)}
		if _, err := io.ReadFull(r, f.body); err != nil {
			return nil, err
		}
		m = append(m, f)
	}
	return m, nil
}

// ask sends a request and returns its answer; events that come before it are passed over.
func (p *peer) ask(s *spec, value func(field) any) message {
	p.t.Helper()
	p.last++
	m := p.send(requestOf(s, p.last, value))
	for m[0].flags&flagEvent != 0 {
		m = p.receive()
	}
	if got := m.correlation(); got != p.last {
		p.t.Fatalf("%s: the answer is to request %d, not %d", s.name, got, p.last)
	}
	return m
}

// Every request that is known is answered over a connection, in any order: if it is not served, with an error; and the connection lives on.
func TestDoor_EveryRequestIsAnswered(t *testing.T) {
	p := newPeer(t, newTestServer(3))
	for _, id := range slices.Sorted(maps.Keys(specs)) {
		s := specs[id]
		m := p.ask(s, func(f field) any { return aValue(s, f) })
		if kind := m.kind(); kind != id+1 && kind != 0 {
			t.Errorf("%s: an answer of type %#06x", s.name, kind)
		}
		if m.kind() == 0 && handlers[id] == nil && !bytes.Contains(m[5].body, []byte("not supported")) && id > 0x000200 {
			t.Errorf("%s: %q", s.name, m[5].body)
		}
	}
}

// No client changes a map of the engine, whatever it asks for.
func TestDoor_MapsOfTheEngineAreOnlyRead(t *testing.T) {
	s := newTestServer(3)
	stores, ctx := s.cfg.Maps, t.Context()
	if _, err := stores.Map("engine_x").Set(ctx, imap.Key{Data: imap.String("x")}, imap.String("x"), 0); err != nil {
		t.Fatal(err)
	}
	p := newPeer(t, s)
	for _, id := range slices.Sorted(maps.Keys(handlers)) {
		spec := specs[id]
		p.ask(spec, func(f field) any {
			if f.name == "name" {
				return "engine_x"
			}
			return aValue(spec, f)
		})
		k := imap.Key{Data: imap.String("x")}
		v, err := stores.Map("engine_x").View(ctx, k)
		if err != nil || !bytes.Equal(v.Value, imap.String("x")) || v.TTL != 0 || v.SetTTL != 0 {
			t.Errorf("%s changed an entry: %+v, %v", spec.name, v, err)
		}
		if n, err := stores.Map("engine_x").Size(ctx); err != nil || n != 1 {
			t.Errorf("%s: %d entries, %v", spec.name, n, err)
		}
		if locked, err := stores.Map("engine_x").IsLocked(ctx, k); err != nil || locked {
			t.Errorf("%s locked a key: %v", spec.name, err)
		}
	}
}

// What a map keeps of a message is its own: later messages do not write over it, nor do answers.
func TestDoor_NothingIsShared(t *testing.T) {
	p := newPeer(t, newTestServer(3))
	text := func(i, round int) string { return strings.Repeat(fmt.Sprintf("%d/%d ", i, round), 1+i*i) }
	field := func(key, v string) func(field) any {
		return func(f field) any {
			switch f.name {
			case "name":
				return "m"
			case "key":
				return data{Data: imap.String(key)}
			case "value":
				return data{Data: imap.String(v)}
			}
			return int64(-1)
		}
	}
	for round := range 3 {
		for i := range 60 {
			m := p.ask(specs[0x010100], field(fmt.Sprint(i), text(i, round)))
			if old := m[1].body; round > 0 && !bytes.Equal(old[4:], imap.String(text(i, round-1))) {
				t.Fatalf("round %d, entry %d: the value before is %.80q", round, i, old)
			}
		}
	}
	for i := range 60 {
		m := p.ask(specs[0x010200], field(fmt.Sprint(i), ""))
		if got := m[1].body; !bytes.Equal(got[4:], imap.String(text(i, 2))) {
			t.Fatalf("entry %d: %.80q", i, got)
		}
	}
}

// Who does not say who he is costs little, and not for long: silent ones, slow ones, and those that promise much.
func TestDoor_BeforeAuthentication(t *testing.T) {
	for name, send := range map[string]func(net.Conn) error{
		"silent": func(net.Conn) error { return nil },
		"slow": func(c net.Conn) error {
			for _, b := range bytes.Repeat([]byte{40, 0, 0, 0}, 20) {
				time.Sleep(time.Second)
				if _, err := c.Write([]byte{b}); err != nil {
					return err
				}
			}
			return errors.New("a slow sender was never cut off")
		},
		"2 GB": func(c net.Conn) error { _, err := c.Write([]byte{0xff, 0xff, 0xff, 0x7f, 0, 0xc0}); return err },
		"negative length": func(c net.Conn) error {
			_, err := c.Write([]byte{0xff, 0xff, 0xff, 0xff, 0, 0xc0})
			return err
		},
		"many frames": func(c net.Conn) error { _, err := c.Write(bytes.Repeat([]byte{6, 0, 0, 0, 0, 0}, 1<<16)); return err },
		"another request": func(c net.Conn) error {
			_, err := c.Write(requestOf(specs[0x012a00], 1, func(field) any { return "m" }))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTestServer(1)
				var wg sync.WaitGroup
				for range 100 {
					here, there := net.Pipe()
					wg.Go(func() { newConn(s, there).serve(context.Background()) })
					wg.Go(func() {
						go func() { _, _ = io.Copy(io.Discard, here) }() // ends with the connection
						if err := send(here); err != nil && !errors.Is(err, io.ErrClosedPipe) && !errors.Is(err, os.ErrDeadlineExceeded) {
							t.Error(err)
						}
					})
				}
				began := time.Now()
				wg.Wait()
				if took := time.Since(began); took > authTimeout+2*time.Second {
					t.Errorf("the last one was there for %v", took)
				}
			})
		})
	}
}

// allocated is what the process has ever allocated, to the byte.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// FuzzDoor drives a connection, from its first byte on. Whatever comes, the server goes on, and spends no more on who is not known than a
// small multiple of what he sent.
func FuzzDoor(f *testing.F) {
	const fixed = 64 << 10 // buffers, and what the fuzzer itself does meanwhile
	f.Add(unhex(f, authRequest))
	f.Add(append(unhex(f, authRequest), unhex(f, putRequest)...))
	for _, id := range slices.Sorted(maps.Keys(handlers)) {
		if id != 0x011000 && id != 0x011100 { // waiting for a lock is long
			f.Add(append(unhex(f, authRequest), requestOf(specs[id], 2, func(x field) any { return aValue(specs[id], x) })...))
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		limit := fixed + 64*uint64(len(raw))
		for again := range 4 { // the fuzzer allocates as well, but not each time
			spent, known := drive(t, raw)
			if known || spent <= limit {
				return
			}
			if again == 3 {
				t.Fatalf("%d bytes from somebody unknown cost %d bytes", len(raw), spent)
			}
		}
	})
}

// drive sends bytes over a connection of its own, and returns what they cost and whether the sender became known.
func drive(t *testing.T, raw []byte) (spent uint64, known bool) {
	s := newTestServer(1)
	here, there := net.Pipe()
	before := allocated()
	c := newConn(s, there)
	var wg sync.WaitGroup
	wg.Go(func() { c.serve(context.Background()) })
	wg.Go(func() { _, _ = io.Copy(io.Discard, here) })
	_ = here.SetWriteDeadline(time.Now().Add(10 * time.Second))
	_, err := here.Write(raw)
	_ = here.Close()
	wg.Wait()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("the server does not read")
	}
	return allocated() - before, c.known
}

// A message that is too large is answered, if it says whose it is, and costs neither the connection nor memory.
func TestReadMessage_TooLarge(t *testing.T) {
	spec := specs[0x010f00] // Map.set
	large := requestOf(spec, 7, func(f field) any {
		if f.name == "value" {
			return data{Data: imap.Bytes(make([]byte, 10_000))}
		}
		return aValue(spec, f)
	})
	small := requestOf(spec, 8, func(f field) any { return aValue(spec, f) })
	in := bytes.NewReader(slices.Concat(large, small))
	m, err := readOne(in, 1000)
	if !errors.Is(err, errTooLarge) || len(m) != 1 || m.correlation() != 7 {
		t.Fatalf("%d frames, %v", len(m), err)
	}
	if m, err = readOne(in, 1000); err != nil || m.correlation() != 8 || len(m) < 3 {
		t.Errorf("the one behind it: %v", err)
	}
	head := &encoder{}
	head.begin(unfragmented)
	head.buf = append(head.buf, make([]byte, 2000)...)
	if m, err := readOne(bytes.NewReader(head.bytes()), 1000); !errors.Is(err, errTooLarge) || m != nil {
		t.Errorf("an initial frame that is too large: %v, %v", m, err)
	}
	if _, err := readOne(bytes.NewReader(large[:len(large)-1]), 1000); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("one that ends in between: %v", err)
	}
}
