package main

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestLogWriter_WritesBeforeItReturns: as long as somebody reads, a line is out when Write returns.
func TestLogWriter_WritesBeforeItReturns(t *testing.T) {
	var out strings.Builder
	w := newLogWriter(&out, nil)
	defer w.close()
	for i := range 100 {
		line := fmt.Sprintf("line %d\n", i)
		if n, err := w.Write([]byte(line)); n != len(line) || err != nil {
			t.Fatal(n, err)
		}
		if !strings.HasSuffix(out.String(), line) {
			t.Fatalf("line %d is not out", i)
		}
	}
}

// TestLogWriter_NobodyReads: who logs hardly waits, what gathers has a bound, and when somebody reads again all is there in its order, and how
// much is not.
func TestLogWriter_NobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader, writer := io.Pipe()
		w := newLogWriter(writer, func(lost int) []byte { return fmt.Appendf(nil, "left out %d\n", lost) })
		line := strings.Repeat("x", 1000)
		start := time.Now()
		const lines = 3000
		for i := range lines {
			_, _ = fmt.Fprintf(w, "%06d %s\n", i, line)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("%d lines that nobody reads took %v", lines, took)
		}
		done := make(chan struct{})
		go func() {
			w.close()
			_ = writer.Close()
			close(done)
		}()
		all, err := io.ReadAll(reader)
		<-done
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Split(strings.TrimSuffix(string(all), "\n"), "\n")
		for i, l := range got[:len(got)-1] {
			if !strings.HasPrefix(l, fmt.Sprintf("%06d ", i)) {
				t.Fatalf("line %d is %.20s", i, l)
			}
		}
		if want := fmt.Sprintf("left out %d", lines-(len(got)-1)); got[len(got)-1] != want || len(all) > maxUnwritten+2*len(line) {
			t.Errorf("%d bytes, the last line is %.40s, not %s", len(all), got[len(got)-1], want)
		}
	})
}

// TestLogWriter_EndsWhileNobodyReads: the end does not wait for a reader either.
func TestLogWriter_EndsWhileNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader, writer := io.Pipe()
		w := newLogWriter(writer, nil)
		_, _ = w.Write([]byte("a line\n"))
		start := time.Now()
		w.close()
		if took := time.Since(start); took > lastWords {
			t.Errorf("the end took %v", took)
		}
		_ = reader.Close() // lets the write go
		<-w.done
	})
}
