package e2e

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// nobody is a hardware address that nobody has: what is sent to it arrives nowhere, and the sender does not notice.
const nobody = "02:00:00:00:ff:ff"

// network is a switch and hosts, each in a network namespace of its own, and this process on one more port of the switch. Nothing of it can
// outlive the processes that hold the namespaces, and these end with this one.
type network struct {
	t      *testing.T
	prefix string // of all addresses, such as "198.18.7."
	hosts  []*host
}

// host is one network namespace.
type host struct {
	addr   string
	holder *exec.Cmd // lives in the namespace
}

// newNetwork makes a network of n hosts; it skips the test if that is not allowed here.
func newNetwork(t *testing.T, n int) *network {
	t.Helper()
	for _, tool := range []string{"ip", "nsenter"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("networks cannot be cut here: %v (packages iproute2 and util-linux)", err)
		}
	}
	w := &network{t: t, prefix: freePrefix(t)}
	hub, err := hold(t)
	if err != nil {
		t.Skipf("networks cannot be cut here, network namespaces are not allowed: %v", err)
	}
	port := fmt.Sprintf("gn%dx%d", os.Getpid()%1_000_000, clusters.Add(1))
	if out, err := w.ip(nil, fmt.Sprintf("link add %s type veth peer name outside netns %d", port, hub.Process.Pid), "addr add "+w.prefix+"254/24 dev "+port,
		"link set "+port+" up"); err != nil {
		t.Skipf("networks cannot be cut here, this machine's network cannot be changed: %v %s", err, out)
	}
	t.Cleanup(func() { _, _ = w.ip(nil, "link del "+port) }) // or it is gone with the switch
	w.must(hub, "link add br0 type bridge", "link set br0 up", "link set outside master br0", "link set outside up")
	for i := range n {
		w.addHost(hub, i+1)
	}
	return w
}

func (w *network) addHost(hub *exec.Cmd, i int) {
	w.t.Helper()
	holder, err := hold(w.t)
	if err != nil {
		w.t.Fatal(err)
	}
	h := &host{addr: fmt.Sprintf("%s%d", w.prefix, i), holder: holder}
	w.must(hub, fmt.Sprintf("link add v%d type veth peer name eth0 netns %d", i, holder.Process.Pid),
		fmt.Sprintf("link set v%d master br0", i), fmt.Sprintf("link set v%d up", i))
	w.must(holder, "addr add "+h.addr+"/24 dev eth0", "link set eth0 up", "link set lo up")
	w.hosts = append(w.hosts, h)
}

// hold starts a process that does nothing, in a network namespace of its own.
func hold(t *testing.T) (*exec.Cmd, error) {
	t.Helper()
	cmd := exec.Command("cat")
	cmd.SysProcAttr = childAttributes(true)
	cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWNET
	in, err := cmd.StdinPipe() // cat ends when this is closed, if only by the end of this process
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	return cmd, nil
}

// ip runs commands of ip, without the first word, in the namespace of a process; nil is this one.
func (w *network) ip(in *exec.Cmd, lines ...string) ([]byte, error) {
	args := []string{"ip", "-batch", "-"}
	if in != nil {
		args = slices.Concat([]string{"nsenter", "-t", fmt.Sprint(in.Process.Pid), "-n", "--"}, args)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	return cmd.CombinedOutput()
}

func (w *network) must(in *exec.Cmd, lines ...string) {
	w.t.Helper()
	if out, err := w.ip(in, lines...); err != nil {
		w.t.Fatalf("ip %q: %v %s", lines, err, out)
	}
}

// freePrefix returns a network of the range that is set aside for tests (RFC 2544), which this machine has no address in.
func freePrefix(t *testing.T) string {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for i := range 512 {
		n := (os.Getpid()*7 + int(clusters.Add(1)) + i) % 512
		prefix := fmt.Sprintf("198.%d.%d.", 18+n/256, n%256)
		if !slices.ContainsFunc(addrs, func(a net.Addr) bool { return strings.HasPrefix(a.String(), prefix) }) {
			return prefix
		}
	}
	t.Fatal("all networks of 198.18.0.0/15 are taken")
	return ""
}

// start starts a member on each host and waits until they are one safe cluster.
func (w *network) start(args ...string) *cluster {
	w.t.Helper()
	c := newCluster(w.t, append(args, "--insecure")...)
	c.place = w.place
	for _, h := range w.hosts {
		c.add(h.addr+":5701", h.addr+":8080")
	}
	c.awaitSafe(len(w.hosts))
	return c
}

// place makes a command run on the host whose address it binds to. nsenter becomes the program, so signals reach that.
func (w *network) place(cmd *exec.Cmd) {
	h := w.hostOf(cmd.Args[slices.Index(cmd.Args, "--bind")+1])
	path, err := exec.LookPath("nsenter")
	if err != nil {
		w.t.Fatal(err)
	}
	cmd.Args = slices.Concat([]string{path, "-t", fmt.Sprint(h.holder.Process.Pid), "-n", "--", cmd.Path}, cmd.Args[1:])
	cmd.Path = path
}

func (w *network) hostOf(addr string) *host {
	at, err := netip.ParseAddrPort(addr)
	if err != nil {
		w.t.Fatal(err)
	}
	i := slices.IndexFunc(w.hosts, func(h *host) bool { return h.addr == at.Addr().String() })
	if i < 0 {
		w.t.Fatalf("no host has the address %s", addr)
	}
	return w.hosts[i]
}

// cutOneWay makes everything that from sends to to disappear.
func (w *network) cutOneWay(from, to *member) {
	w.t.Helper()
	a, b := w.hostOf(from.grid), w.hostOf(to.grid)
	w.must(a.holder, "neigh replace "+b.addr+" lladdr "+nobody+" dev eth0 nud permanent")
}

// cut separates members from others, in both directions.
func (w *network) cut(some, others []*member) {
	w.t.Helper()
	for _, a := range some {
		for _, b := range others {
			w.cutOneWay(a, b)
			w.cutOneWay(b, a)
		}
	}
}

// heal undoes all cuts.
func (w *network) heal() {
	w.t.Helper()
	for _, h := range w.hosts {
		w.must(h.holder, "neigh flush nud permanent")
	}
}
