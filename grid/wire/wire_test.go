package wire

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"gridnode/grid"
)

func TestFrame_GoldenBytes(t *testing.T) {
	got := hex.EncodeToString(Append(nil, Frame{Kind: Heartbeat, Flag: Reply, ID: 0x0102030405060708, Body: []byte("ab")}))
	if want := "0000000c" + "05" + "01" + "0102030405060708" + "6162"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestReader_FramesSplitAnywhere(t *testing.T) {
	want := []Frame{
		{Kind: Hello, ID: 1, Body: []byte("x")},
		{Kind: Ping, Flag: OneWay},
		{Kind: Invoke, Flag: Request, ID: 2, Body: bytes.Repeat([]byte("large"), 100_000)},
		{Kind: Invoke, Flag: Failure, ID: 3, Body: []byte("y")},
	}
	var stream []byte
	for _, f := range want {
		stream = Append(stream, f)
	}
	for name, src := range map[string]io.Reader{
		"whole":    bytes.NewReader(stream),
		"halves":   iotest.HalfReader(bytes.NewReader(stream)),
		"one byte": iotest.OneByteReader(bytes.NewReader(stream)),
		"data+err": iotest.DataErrReader(bytes.NewReader(stream)),
	} {
		r := NewReader(src)
		var got []Frame
		for {
			f, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got = append(got, f)
		}
		same := func(a, b Frame) bool {
			return a.Kind == b.Kind && a.Flag == b.Flag && a.ID == b.ID && bytes.Equal(a.Body, b.Body)
		}
		if !slices.EqualFunc(got, want, same) {
			t.Errorf("%s: the frames are not the same", name)
		}
	}
}

func TestReader_Refuses(t *testing.T) {
	for _, tc := range []struct {
		name string
		in   []byte
		want error
	}{
		{"empty", nil, io.EOF},
		{"cut in the length", []byte{0, 0}, io.ErrUnexpectedEOF},
		{"cut in the body", Append(nil, Frame{Kind: Hello, Body: []byte("abc")})[:15], io.ErrUnexpectedEOF},
		{"shorter than a head", []byte{0, 0, 0, 9, 1, 0}, grid.ErrBadMessage},
		{"too long", []byte{0xff, 0xff, 0xff, 0xff, 1, 0}, grid.ErrTooLarge},
		{"unknown flag", Append(nil, Frame{Kind: Hello, Flag: 9}), grid.ErrBadMessage},
	} {
		if _, err := NewReader(bytes.NewReader(tc.in)).Next(); !errors.Is(err, tc.want) {
			t.Errorf("%s: got %v, want %v", tc.name, err, tc.want)
		}
	}
}

func TestReader_ClaimedLengthAllocatesNothing(t *testing.T) {
	head := Append(nil, Frame{Kind: Hello})
	head[0], head[1] = 0x03, 0xff // claims 64 MiB
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const runs = 100
	for range runs {
		_, _ = NewReader(bytes.NewReader(head)).Next()
	}
	runtime.ReadMemStats(&after)
	bytesPerRun := (after.TotalAlloc - before.TotalAlloc) / runs
	if bytesPerRun > 2*chunkSize {
		t.Errorf("allocated %d bytes for a frame that never came", bytesPerRun)
	}
}

func TestReader_BodiesAreNotOverwritten(t *testing.T) {
	var stream []byte
	const n = 20_000
	for i := range n {
		stream = Append(stream, Frame{Kind: Invoke, ID: uint64(i), Body: fmt.Appendf(nil, "body %d", i)})
	}
	r := NewReader(bytes.NewReader(stream))
	var kept [][]byte
	for range n {
		f, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, f.Body)
	}
	for i, body := range kept {
		if want := fmt.Sprintf("body %d", i); string(body) != want {
			t.Fatalf("body %d is now %q", i, body)
		}
	}
}

func TestError_KeepsItsMeaning(t *testing.T) {
	for _, tc := range []struct {
		in   error
		want *grid.Error
	}{
		{fmt.Errorf("partition 3: %w", grid.ErrStaleEpoch), grid.ErrStaleEpoch},
		{&grid.Rejected{Reason: "no"}, grid.ErrRefused},
		{context.DeadlineExceeded, grid.ErrIndeterminate},
		{errors.New("anything"), grid.ErrInternal},
		{errors.New(strings.Repeat("ü", 2000)), grid.ErrInternal},
	} {
		got := DecodeError(AppendError(nil, tc.in))
		if !errors.Is(got, tc.want) || grid.KindOf(got) != tc.want.Kind() {
			t.Errorf("%.40v became %.40v", tc.in, got)
		}
		if len(tc.in.Error()) < maxErrorText && got.Error() != tc.in.Error() {
			t.Errorf("text %q became %q", tc.in, got)
		}
	}
	if got := DecodeError([]byte{1}); !errors.Is(got, grid.ErrIndeterminate) {
		t.Errorf("a malformed error is %v", got)
	}
}

func FuzzReader(f *testing.F) {
	f.Add(Append(Append(nil, Frame{Kind: Hello, ID: 7, Body: []byte("body")}), Frame{Kind: Ping, Flag: OneWay}))
	f.Add([]byte{0, 0, 0, 10, 1, 0, 0, 0})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, in []byte) {
		r := NewReader(iotest.HalfReader(bytes.NewReader(in)))
		var again []byte
		for {
			fr, err := r.Next()
			if err != nil {
				break
			}
			if fr.Flag == Failure {
				_ = DecodeError(fr.Body)
			}
			again = Append(again, fr)
		}
		if !bytes.HasPrefix(in, again) {
			t.Errorf("frames of %x encode to %x", in, again)
		}
	})
}
