package clients

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// The frames of the protocol, as far as a client needs them that wants to know nothing but who the members are.
const (
	rawWhole = 0xc000
	rawFinal = 0x2000
	rawNull  = 0x0400
	rawBegin = 0x1000
	rawEnd   = 0x0800
	rawEvent = 0x0200

	rawAuthentication = 0x000100
	rawViewListener   = 0x000300
	rawTryLock        = 0x011100
	rawIsLocked       = 0x011200
	rawMembers        = 0x000302
	rawPartitions     = 0x000303
)

type rawFrame struct {
	flags uint16
	body  []byte
}

func rawMessage(frames ...rawFrame) (b []byte) {
	for i, f := range frames {
		if i == len(frames)-1 {
			f.flags |= rawFinal
		}
		b = binary.LittleEndian.AppendUint32(b, uint32(6+len(f.body)))
		b = binary.LittleEndian.AppendUint16(b, f.flags)
		b = append(b, f.body...)
	}
	return b
}

func rawHead(kind uint32, id uint64) []byte {
	b := binary.LittleEndian.AppendUint32(nil, kind)
	return append(binary.LittleEndian.AppendUint64(b, id), 0xff, 0xff, 0xff, 0xff)
}

func rawRead(r io.Reader) (m []rawFrame, err error) {
	for len(m) == 0 || m[len(m)-1].flags&rawFinal == 0 {
		var head [6]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return nil, err
		}
		f := rawFrame{binary.LittleEndian.Uint16(head[4:]), make([]byte, binary.LittleEndian.Uint32(head[:])-6)}
		if _, err := io.ReadFull(r, f.body); err != nil {
			return nil, err
		}
		m = append(m, f)
	}
	return m, nil
}

// rawClient is a client that knows nothing but frames.
type rawClient struct {
	conn net.Conn
	in   *bufio.Reader
	last uint64
}

// rawConnect connects as a client whose UUID has that number. The connection ends with the test.
func rawConnect(t *testing.T, p *Process, n int) *rawClient {
	t.Helper()
	conn, err := net.Dial("tcp", p.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	c := &rawClient{conn: conn, in: bufio.NewReader(conn), last: 1}
	text := func(s string) rawFrame { return rawFrame{0, []byte(s)} }
	null, begin, end := rawFrame{flags: rawNull}, rawFrame{flags: rawBegin}, rawFrame{flags: rawEnd}
	head := binary.LittleEndian.AppendUint64(append(rawHead(rawAuthentication, c.last), 0), uint64(n+1))
	head = append(binary.LittleEndian.AppendUint64(head, 7), 1)
	c.write(t, append([]byte("CP2"), rawMessage(rawFrame{rawWhole, head}, text("clients"), null, null, text("GOO"), text("1.4.2"), text("raw"), begin, end)...))
	c.answer(t, rawAuthentication)
	return c
}

func (c *rawClient) write(t *testing.T, b []byte) {
	t.Helper()
	if _, err := c.conn.Write(b); err != nil {
		t.Fatal(err)
	}
}

func (c *rawClient) answer(t *testing.T, kind uint32) []rawFrame {
	t.Helper()
	m, err := rawRead(c.in)
	if err != nil || binary.LittleEndian.Uint32(m[0].body) != kind+1 {
		t.Fatalf("the answer to %#x: %v, %v", kind, err, m)
	}
	return m
}

// onKey asks for something on a key of map m that has those numbers before it.
func (c *rawClient) onKey(t *testing.T, kind uint32, key string, numbers ...int64) []rawFrame {
	t.Helper()
	c.last++
	head := rawHead(kind, c.last)
	for _, n := range numbers {
		head = binary.LittleEndian.AppendUint64(head, uint64(n))
	}
	data := append([]byte{0, 0, 0, 0, 0xff, 0xff, 0xff, 0xf5}, binary.BigEndian.AppendUint32(nil, uint32(len(key)))...)
	c.write(t, rawMessage(rawFrame{rawWhole, head}, rawFrame{0, []byte("m")}, rawFrame{0, append(data, key...)}))
	return c.answer(t, kind)
}

// watch hands over each view that the client is sent, until the connection ends.
func (c *rawClient) watch(t *testing.T, got func(kind uint32, version int32, m []rawFrame)) {
	t.Helper()
	c.write(t, rawMessage(rawFrame{rawWhole, append(rawHead(rawViewListener, 2), 0)}))
	c.answer(t, rawViewListener)
	var wg sync.WaitGroup
	t.Cleanup(func() {
		_ = c.conn.Close()
		wg.Wait()
	})
	wg.Go(func() {
		for {
			m, err := rawRead(c.in)
			if err != nil {
				return
			}
			if m[0].flags&rawEvent != 0 {
				got(binary.LittleEndian.Uint32(m[0].body), int32(binary.LittleEndian.Uint32(m[0].body[16:])), m)
			}
		}
	})
}

// After a kill every client knows who the members and the primaries are within a second of the members' agreement.
func TestViews_ReachEveryClientWithinASecondOfAgreement(t *testing.T) {
	t.Parallel()
	members := startMembers(t, 3)
	safe(t, members)
	const clients = 40
	type seen struct {
		at      time.Time
		version int32
	}
	var mu sync.Mutex
	last := map[int]map[uint32]seen{} // of each client, by kind
	owners := map[int]int{}           // members that have partitions, by the newest view of each client
	for i := range clients {
		last[i] = map[uint32]seen{}
		rawConnect(t, members[i%2], i).watch(t, func(kind uint32, version int32, m []rawFrame) {
			mu.Lock()
			defer mu.Unlock()
			if version <= last[i][kind].version {
				t.Errorf("client %d: %#x has version %d after %d", i, kind, version, last[i][kind].version)
			}
			last[i][kind] = seen{time.Now(), version}
			if kind == rawPartitions {
				owners[i] = len(m[len(m)-1].body) / 17
			}
		})
	}
	all := func(n int) bool {
		mu.Lock()
		defer mu.Unlock()
		for i := range clients {
			if owners[i] != n || last[i][rawMembers].version == 0 {
				return false
			}
		}
		return true
	}
	await(t, "the first views", func() bool { return all(3) })
	killed := time.Now()
	members[2].Kill()
	await(t, "the agreement", func() bool { return size(t, members[0]) == 2 || size(t, members[1]) == 2 })
	agreed := time.Now()
	await(t, "views of what is left", func() bool { return all(2) })
	mu.Lock()
	defer mu.Unlock()
	for i := range clients {
		for kind, x := range last[i] {
			if late := x.at.Sub(agreed); late > time.Second {
				t.Errorf("client %d got %#x %v after the agreement", i, kind, late)
			}
			if x.at.Before(killed) {
				t.Errorf("client %d was not told: %#x", i, kind)
			}
		}
	}
	t.Logf("agreed %v after the kill; all %d clients knew %v after that", agreed.Sub(killed).Round(time.Millisecond), clients, time.Since(agreed).Round(time.Millisecond))
}

// size is how many members there are, as a member knows.
func size(t *testing.T, p *Process) int {
	t.Helper()
	var list struct{ Members []struct{ ID string } }
	if err := json.Unmarshal(do(t, http.MethodGet, p.HTTP+"/api/v1/members", ""), &list); err != nil {
		t.Fatal(err)
	}
	return len(list.Members)
}
