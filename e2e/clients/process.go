package clients

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	readyWithin = 30 * time.Second
	leaveWithin = 40 * time.Second
	crashWithin = 5 * time.Second
	askEvery    = 20 * time.Millisecond
)

// Process is a member that runs.
type Process struct {
	ID   string // of the member
	Port int    // of the grid
	HTTP string // base URL

	cmd   *exec.Cmd
	ended chan struct{} // closed when it has been waited for
}

// Start starts a member on 127.0.0.1 and returns it when it can serve. first come before, and args behind, those for who and where it is.
func Start(binary string, first []string, w Wanted, log *os.File, args ...string) (*Process, error) {
	httpAddr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	p := &Process{Port: w.Port, HTTP: "http://" + httpAddr, ended: make(chan struct{})}
	who := []string{"--cluster", w.Cluster, "--bind", p.Address(), "--http", httpAddr, "--join=" + strings.Join(w.Seeds, ",")}
	args = slices.Concat(first, who, args)
	p.cmd = exec.Command(binary, args...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { // as long as the process lives
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	if err := p.awaitReady(); err != nil {
		p.Kill()
		return nil, err
	}
	return p, nil
}

func freeAddress() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return ln.Addr().String(), ln.Close()
}

// Address is where members and clients reach it.
func (p *Process) Address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.Port)) }

// PID is its process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

func (p *Process) awaitReady() error {
	client := &http.Client{Timeout: time.Second}
	for deadline := time.Now().Add(readyWithin); time.Now().Before(deadline); time.Sleep(askEvery) {
		select {
		case <-p.ended:
			return fmt.Errorf("the member at %s ended at once", p.Address())
		default:
		}
		if err := p.ask(client); err == nil {
			return nil
		}
	}
	return fmt.Errorf("the member at %s is not ready after %v", p.Address(), readyWithin)
}

// ask learns the member's id, if it is ready.
func (p *Process) ask(client *http.Client) error {
	ready, err := client.Get(p.HTTP + "/readyz")
	if err != nil {
		return err
	}
	_ = ready.Body.Close()
	if ready.StatusCode != http.StatusOK {
		return errors.New(ready.Status)
	}
	answer, err := client.Get(p.HTTP + "/api/v1/members")
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	var list struct {
		Members []struct{ ID, Address string }
	}
	if err := json.NewDecoder(answer.Body).Decode(&list); err != nil {
		return err
	}
	for _, m := range list.Members {
		if m.Address == p.Address() {
			p.ID = m.ID
			return nil
		}
	}
	return errors.New("not in the list of members")
}

// Safe reports whether the cluster has that many members, and every partition all the replicas that it should have.
func (p *Process) Safe(members int) bool {
	client := &http.Client{Timeout: time.Second}
	answer, err := client.Get(p.HTTP + "/api/v1/cluster")
	if err != nil {
		return false
	}
	defer func() { _ = answer.Body.Close() }()
	var c struct {
		Safe bool
		Size int
	}
	return json.NewDecoder(answer.Body).Decode(&c) == nil && c.Safe && c.Size == members
}

// Kill ends the process as a crash does.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// Crash is Kill for e2e/clients/member, which stops listening first.
func (p *Process) Crash() {
	_ = p.cmd.Process.Signal(syscall.SIGUSR1)
	select {
	case <-p.ended:
	case <-time.After(crashWithin):
		p.Kill()
	}
}

// Leave lets the member hand over what it holds and waits for its end, for a bounded time.
func (p *Process) Leave() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(leaveWithin):
		p.Kill()
	}
}
