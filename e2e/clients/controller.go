// Package clients runs the test suites of Hazelcast's own clients against gridnode. Those suites start and stop members through Hazelcast's
// "remote controller"; the one here speaks its protocol and starts gridnode processes.
package clients

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/apache/thrift/lib/go/thrift"
	"github.com/hazelcast/hazelcast-go-client"
)

// Controller is the stand-in: a Thrift service (strict binary protocol, buffered transport), one goroutine for each connection.
type Controller struct {
	listener net.Listener
	start    func(Wanted) (*Process, error)
	logf     func(format string, args ...any)

	mu     sync.Mutex // guards what follows
	closed bool
	conns  map[net.Conn]struct{}
	wg     sync.WaitGroup
}

// suite is one connection: a run of tests, with the clusters that it has asked for. Two runs may use one name for clusters of their own. Its calls
// come one after the other.
type suite struct {
	c        *Controller
	clusters map[string]*clusterOf
}

// Wanted is a member that is asked for.
type Wanted struct {
	Cluster string
	Port    int
	First   int // port of the cluster's first member
	Seeds   []string
	Stored  []string // maps that have a store
}

const (
	maxName = 64 // of a cluster
	// endsIn is how long the end of a member takes at least. The suites count on clients that have noticed it when they are told of it.
	endsIn = 500 * time.Millisecond
)

// clusterOf is what was asked for under one name.
type clusterOf struct {
	port    int // of the first member; the others follow
	stored  []string
	members []*Process
	client  *hazelcast.Client // for scripts; nil until there is one
}

// end kills the members.
func (c *clusterOf) end() {
	if c.client != nil {
		_ = c.client.Shutdown(context.Background())
	}
	for _, m := range c.members {
		m.Kill()
	}
}

// NewController listens where the clients' suites look for it. start starts a member and returns it when it is ready.
func NewController(start func(Wanted) (*Process, error), logf func(string, ...any)) (*Controller, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:9701")
	if err != nil {
		return nil, fmt.Errorf("remote controller: %w", err)
	}
	c := &Controller{listener: ln, start: start, logf: logf, conns: map[net.Conn]struct{}{}}
	c.wg.Go(c.accept)
	return c, nil
}

// Close ends the service and waits until all members are killed.
func (c *Controller) Close() {
	_ = c.listener.Close()
	c.mu.Lock()
	c.closed = true
	for conn := range c.conns {
		_ = conn.Close()
	}
	c.mu.Unlock()
	c.wg.Wait()
}

func (c *Controller) accept() {
	for {
		conn, err := c.listener.Accept()
		if err != nil {
			return
		}
		c.mu.Lock()
		c.conns[conn] = struct{}{}
		if c.closed {
			_ = conn.Close()
		}
		c.mu.Unlock()
		c.wg.Go(func() {
			s := &suite{c: c, clusters: map[string]*clusterOf{}}
			if err := s.serve(conn); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
				c.logf("remote controller: %v", err)
			}
			for _, cl := range s.clusters {
				cl.end()
			}
			c.mu.Lock()
			delete(c.conns, conn)
			c.mu.Unlock()
			_ = conn.Close()
		})
	}
}

// serve answers the calls.
func (s *suite) serve(conn net.Conn) error {
	t := thrift.NewTBufferedTransport(thrift.NewTSocketFromConnConf(conn, nil), 4096)
	p := thrift.NewTBinaryProtocolConf(t, nil)
	ctx := context.Background()
	for {
		name, _, seq, err := p.ReadMessageBegin(ctx)
		if err != nil {
			return unwrapped(err)
		}
		args, err := readArgs(ctx, p)
		if err != nil {
			return err
		}
		if err := p.ReadMessageEnd(ctx); err != nil {
			return err
		}
		result, err := s.call(name, args)
		if err != nil {
			s.c.logf("remote controller: %s%v: %v", name, args, err)
		}
		if err := errors.Join(answer(ctx, p, name, seq, result, err), p.Flush(ctx)); err != nil {
			return err
		}
	}
}

func unwrapped(err error) error {
	if e, ok := errors.AsType[thrift.TTransportException](err); ok && e.TypeId() == thrift.END_OF_FILE {
		return io.EOF
	}
	return err
}

// readArgs reads the arguments of a call by their ids: texts and numbers.
func readArgs(ctx context.Context, p thrift.TProtocol) (map[int16]any, error) {
	if _, err := p.ReadStructBegin(ctx); err != nil {
		return nil, err
	}
	args := map[int16]any{}
	for {
		_, kind, id, err := p.ReadFieldBegin(ctx)
		if err != nil {
			return nil, err
		}
		switch kind {
		case thrift.STOP:
			return args, p.ReadStructEnd(ctx)
		case thrift.STRING:
			args[id], err = p.ReadString(ctx)
		case thrift.I32:
			args[id], err = p.ReadI32(ctx)
		default:
			err = p.Skip(ctx, kind)
		}
		if err := errors.Join(err, p.ReadFieldEnd(ctx)); err != nil {
			return nil, err
		}
	}
}

// cluster and member are the structures that calls return; response is what a script came to.
type (
	clusterResult struct{ id string }
	memberResult  struct {
		uuid, host string
		port       int32
	}
	response struct {
		success bool
		message string
	}
)

var (
	clusterName = regexp.MustCompile(`<cluster-name>([^<]+)</cluster-name>`)
	portNumber  = regexp.MustCompile(`<port[^>]*>(\d+)</port>`)
	storedMap   = regexp.MustCompile(`<map name="([^"]+)">\s*<map-store enabled="true">`)
)

func (s *suite) call(name string, args map[int16]any) (any, error) {
	text := func(id int16) string { t, _ := args[id].(string); return t }
	switch name {
	case "ping":
		return true, nil
	case "createCluster", "createClusterKeepClusterName":
		return s.create(text(2))
	case "startMember":
		return s.startMember(text(1))
	case "shutdownMember":
		return s.end(text(1), text(2), (*Process).Leave)
	case "terminateMember":
		return s.end(text(1), text(2), (*Process).Crash)
	case "executeOnController":
		return s.script(text(1), text(2))
	}
	return nil, fmt.Errorf("no method %s", name)
}

// script does what a script asks for. A script that fails is an answer, and for the suites no exception.
func (s *suite) script(cluster, script string) (any, error) {
	cl := s.clusters[cluster]
	if cl == nil {
		return nil, fmt.Errorf("no cluster %q", cluster)
	}
	if err := cl.runScript(cluster, script); err != nil {
		s.c.logf("script: %v", err)
		return response{message: err.Error()}, nil
	}
	return response{success: true}, nil
}

func (s *suite) create(xml string) (any, error) {
	name, port := clusterName.FindStringSubmatch(xml), portNumber.FindStringSubmatch(xml)
	if name == nil || port == nil {
		return nil, errors.New("the config has no cluster-name or no port")
	}
	n, err := strconv.Atoi(port[1])
	if err != nil {
		return nil, err
	}
	id := name[1][max(0, len(name[1])-maxName):] // the suites go on with the id that they get
	if old := s.clusters[id]; old != nil {
		old.end()
	}
	cl := &clusterOf{port: n}
	for _, m := range storedMap.FindAllStringSubmatch(xml, -1) {
		cl.stored = append(cl.stored, m[1])
	}
	s.clusters[id] = cl
	return clusterResult{id}, nil
}

func (s *suite) startMember(cluster string) (any, error) {
	cl := s.clusters[cluster]
	if cl == nil {
		return nil, fmt.Errorf("no cluster %q", cluster)
	}
	var seeds []string
	used := map[int]bool{}
	for _, m := range cl.members {
		seeds = append(seeds, m.Address())
		used[m.Port] = true
	}
	port := cl.port
	for used[port] {
		port++
	}
	m, err := s.c.start(Wanted{Cluster: cluster, Port: port, First: cl.port, Seeds: seeds, Stored: cl.stored})
	if err != nil {
		return nil, err
	}
	cl.members = append(cl.members, m)
	return memberResult{m.ID, "127.0.0.1", int32(m.Port)}, nil
}

func (s *suite) end(cluster, member string, how func(*Process)) (any, error) {
	cl := s.clusters[cluster]
	if cl == nil {
		return false, nil
	}
	for i, m := range cl.members {
		if m.ID == member {
			how(m)
			time.Sleep(endsIn)
			cl.members = append(cl.members[:i], cl.members[i+1:]...)
			return true, nil
		}
	}
	return false, nil
}

// answer writes a reply, or an exception.
func answer(ctx context.Context, p thrift.TProtocol, name string, seq int32, result any, err error) error {
	if err != nil {
		e := thrift.NewTApplicationException(thrift.INTERNAL_ERROR, err.Error())
		return errors.Join(p.WriteMessageBegin(ctx, name, thrift.EXCEPTION, seq), e.Write(ctx, p), p.WriteMessageEnd(ctx))
	}
	w := writer{ctx: ctx, p: p}
	w.do(p.WriteMessageBegin(ctx, name, thrift.REPLY, seq))
	w.structure(func() { w.value("success", 0, result) })
	w.do(p.WriteMessageEnd(ctx))
	return w.err
}

// writer writes until something fails.
type writer struct {
	ctx context.Context
	p   thrift.TProtocol
	err error
}

func (w *writer) do(err error) { w.err = errors.Join(w.err, err) }

func (w *writer) structure(fields func()) {
	w.do(w.p.WriteStructBegin(w.ctx, ""))
	fields()
	w.do(w.p.WriteFieldStop(w.ctx))
	w.do(w.p.WriteStructEnd(w.ctx))
}

func (w *writer) value(name string, id int16, v any) {
	begin := func(t thrift.TType) { w.do(w.p.WriteFieldBegin(w.ctx, name, t, id)) }
	switch v := v.(type) {
	case bool:
		begin(thrift.BOOL)
		w.do(w.p.WriteBool(w.ctx, v))
	case int32:
		begin(thrift.I32)
		w.do(w.p.WriteI32(w.ctx, v))
	case string:
		begin(thrift.STRING)
		w.do(w.p.WriteString(w.ctx, v))
	case clusterResult:
		begin(thrift.STRUCT)
		w.structure(func() { w.value("id", 1, v.id) })
	case memberResult:
		begin(thrift.STRUCT)
		w.structure(func() { w.value("uuid", 1, v.uuid); w.value("host", 2, v.host); w.value("port", 3, v.port) })
	case response:
		begin(thrift.STRUCT)
		w.structure(func() { w.value("success", 1, v.success); w.value("message", 2, v.message) })
	}
	w.do(w.p.WriteFieldEnd(w.ctx))
}
