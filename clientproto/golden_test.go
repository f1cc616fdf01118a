package clientproto

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"testing"

	"gridnode/grid"
	"gridnode/imap"
)

// unhex reads bytes as they are written in tables.
func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// What a Go client of version 1.4.2 sends first, after CP2.
const authRequest = `
28 00 00 00 00 c0  00 01 00 00  01 00 00 00 00 00 00 00  ff ff ff ff
  00 12 4f 65 a6 ec 45 6e 0b 02 d8 c2 21 c1 ca fe 81  01
09 00 00 00 00 00 64 65 76
06 00 00 00 00 04
06 00 00 00 00 04
09 00 00 00 00 00 47 4f 4f
0b 00 00 00 00 00 31 2e 34 2e 32
11 00 00 00 00 00 68 7a 2e 63 6c 69 65 6e 74 5f 31
06 00 00 00 00 10
06 00 00 00 00 28`

// Map.put of v under k in m, to partition 41.
const putRequest = `
26 00 00 00 00 c0  00 01 01 00  04 00 00 00 00 00 00 00  29 00 00 00
  00 00 00 00 00 00 00 00  ff ff ff ff ff ff ff ff
07 00 00 00 00 00 6d
13 00 00 00 00 00  00 00 00 00  ff ff ff f5  00 00 00 01  6b
13 00 00 00 00 20  00 00 00 00  ff ff ff f5  00 00 00 01  76`

// readOne reads the next message of r.
func readOne(r io.Reader, limit int) (message, error) { return (&inbox{r: r}).message(limit) }

func parsed(t *testing.T, raw string) *call {
	t.Helper()
	m, err := readOne(bytes.NewReader(unhex(t, raw)), beforeAuth)
	if err != nil {
		t.Fatal(err)
	}
	q, err := newCall(&conn{}, m)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func TestRequests_AsARealClientSendsThem(t *testing.T) {
	auth := parsed(t, authRequest)
	if got := auth.uuid("uuid").String(); got != "0b6e45ec-a665-4f12-81fe-cac121c2d802" {
		t.Errorf("client uuid %s", got)
	}
	if auth.text("cluster") != "dev" || auth.text("user") != "" || auth.text("name") != "hz.client_1" || auth.long("version") != 1 {
		t.Errorf("authentication: %v", auth.args)
	}
	put := parsed(t, putRequest)
	if put.text("name") != "m" || put.long("ttl") != -1 || put.m.partition() != 41 || put.m.correlation() != 4 {
		t.Errorf("put: %v", put.args)
	}
	if !bytes.Equal(put.data("key").Data, imap.String("k")) || !bytes.Equal(put.data("value").Data, imap.String("v")) {
		t.Errorf("put: key %x, value %x", put.data("key").Data, put.data("value").Data)
	}
	if p := grid.PartitionOf(put.data("key").Hash(), 271); p != 41 {
		t.Errorf("the key lives in partition %d, the client says 41", p)
	}
}

func TestAnswers_AsClientsReadThem(t *testing.T) {
	put := parsed(t, putRequest)
	b, _ := put.old(imap.Entry{})
	if want := unhex(t, `13 00 00 00 00 c0  01 01 01 00  04 00 00 00 00 00 00 00  00  06 00 00 00 00 24`); !bytes.Equal(b, want) {
		t.Errorf("no value before: % x", b)
	}
	b, _ = put.old(imap.Entry{Version: 1, Value: imap.String("v")})
	want := unhex(t, `13 00 00 00 00 c0 01 01 01 00 04 00 00 00 00 00 00 00 00
		13 00 00 00 00 20 00 00 00 00 ff ff ff f5 00 00 00 01 76`)
	if !bytes.Equal(b, want) {
		t.Errorf("a value before: % x", b)
	}
	b = failure(5, fail(codeIllegalMonitor, "no"))
	want = unhex(t, `13 00 00 00 00 c0 00 00 00 00 05 00 00 00 00 00 00 00 00
		06 00 00 00 00 10 06 00 00 00 00 10 0a 00 00 00 00 00 1a 00 00 00
		28 00 00 00 00 00`+hex.EncodeToString([]byte("java.lang.IllegalMonitorStateException"))+`
		08 00 00 00 00 00 6e 6f 06 00 00 00 00 10 06 00 00 00 00 08 06 00 00 00 00 08 06 00 00 00 00 28`)
	want[31+6+4] = byte(6 + len("java.lang.IllegalMonitorStateException"))
	if !bytes.Equal(b, want) {
		t.Errorf("an error:\n% x\n% x", b, want)
	}
}

func TestViews_AsClientsReadThem(t *testing.T) {
	const id = "50ac3be6-fbbb-4f69-a7f4-21de3671c069"
	s := &grid.State{Index: 1, Members: []grid.Member{{ID: id, Address: "127.0.0.1:5701", Roles: []string{grid.RoleData}, State: grid.Active}}}
	got := bytes.Join(asEventOf(2, membersView(s)), nil)
	want := unhex(t, `1a 00 00 00 00 c2  02 03 00 00  02 00 00 00 00 00 00 00  ff ff ff ff  01 00 00 00
		06 00 00 00 00 10  06 00 00 00 00 10
		18 00 00 00 00 00  00 69 4f bb fb e6 3b ac 50 69 c0 71 36 de 21 f4 a7  00
		06 00 00 00 00 10  0a 00 00 00 00 00 45 16 00 00  0f 00 00 00 00 00 31 32 37 2e 30 2e 30 2e 31  06 00 00 00 00 08
		06 00 00 00 00 10  06 00 00 00 00 08
		06 00 00 00 00 10  09 00 00 00 00 00 05 05 00  06 00 00 00 00 08
		06 00 00 00 00 10  06 00 00 00 00 08
		06 00 00 00 00 08  06 00 00 00 00 28`)
	if !bytes.Equal(got, want) {
		t.Errorf("members:\n% x\n% x", got, want)
	}
	s.Partitions = []grid.Partition{{Replicas: []grid.MemberID{id}}, {}, {Replicas: []grid.MemberID{id}}}
	got = bytes.Join(asEventOf(2, partitionsView(s)), nil)
	want = unhex(t, `1a 00 00 00 00 c2 03 03 00 00 02 00 00 00 00 00 00 00 ff ff ff ff 01 00 00 00
		06 00 00 00 00 10  0e 00 00 00 00 00 00 00 00 00 02 00 00 00  06 00 00 00 00 08
		17 00 00 00 00 20  00 69 4f bb fb e6 3b ac 50 69 c0 71 36 de 21 f4 a7`)
	if !bytes.Equal(got, want) {
		t.Errorf("partitions:\n% x\n% x", got, want)
	}
}

// What did not run must be tried again, what may have run must not look like success or failure.
func TestErrors_KeepTheirKind(t *testing.T) {
	for err, want := range map[error]errorCode{
		grid.ErrNotReady: codeRetryable, grid.ErrNoQuorum: codeRetryable, grid.ErrBusy: codeRetryable, grid.ErrNoLease: codeRetryable,
		grid.ErrIndeterminate: codeIndeterminateState, grid.ErrNotOwner: codeIllegalMonitor, grid.ErrBadRequest: codeIllegalArgument,
		grid.ErrTooLarge: codeMaxMessageSize, grid.ErrMemory: codeReachedMaxSize, grid.ErrInternal: codeRuntime,
		fmt.Errorf("%w: %w", grid.ErrIndeterminate, grid.ErrClosed): codeIndeterminateState, context.Canceled: codeIndeterminateState,
	} {
		if got := codeOf(err); got != want {
			t.Errorf("%v: code %d, want %d", err, got, want)
		}
	}
}

// FuzzRequest feeds what a connection reads. Whatever comes, there is no panic, and nothing is kept beyond the limit.
func FuzzRequest(f *testing.F) {
	f.Add(unhex(f, authRequest))
	f.Add(unhex(f, putRequest))
	f.Fuzz(func(_ *testing.T, raw []byte) {
		r := bytes.NewReader(raw)
		for {
			m, err := readOne(r, beforeAuth)
			if err != nil {
				return
			}
			_, _ = newCall(&conn{}, m)
		}
	})
}
