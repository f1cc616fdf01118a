package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gridnode/engine/catalog"
	"gridnode/engine/config"
	"gridnode/examples"
)

func TestCompareRows(t *testing.T) {
	a, b, quoted := []string{"a", "1"}, []string{"b", "2"}, []string{`a","1`}
	tests := []struct {
		name      string
		want, got [][]string
		expect    comparison
	}{
		{"nothing", nil, nil, comparison{}},
		{"another order", [][]string{a, b}, [][]string{b, a}, comparison{want: 2, got: 2}},
		{"one missing", [][]string{a, b}, [][]string{b}, comparison{want: 2, got: 1, missing: 1}},
		{"one doubled", [][]string{a, b}, [][]string{b, a, b}, comparison{want: 2, got: 3, doubled: 1}},
		{"one for another: the counts alone would not show it", [][]string{a, b}, [][]string{a, a}, comparison{want: 2, got: 2, missing: 1, doubled: 1}},
		{"wanted twice", [][]string{a, a}, [][]string{a, a}, comparison{want: 2, got: 2}},
		{"wanted twice, came once", [][]string{a, a}, [][]string{a}, comparison{want: 2, got: 1, missing: 1}},
		{"foreign", [][]string{a}, [][]string{a, b, b}, comparison{want: 1, got: 3, foreign: 2}},
		{"fields that look alike when joined", [][]string{a}, [][]string{quoted}, comparison{want: 1, got: 1, missing: 1, foreign: 1}},
		{"a field more", [][]string{{"a"}}, [][]string{{"a", ""}}, comparison{want: 1, got: 1, missing: 1, foreign: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := compareRows(tt.want, tt.got)
			if got != tt.expect {
				t.Errorf("got %+v, want %+v", got, tt.expect)
			}
			if exact := tt.expect.missing+tt.expect.doubled+tt.expect.foreign == 0; got.exact() != exact {
				t.Errorf("exact is %v", got.exact())
			}
		})
	}
}

func TestWriteInput_SharesAllRowsOut(t *testing.T) {
	all, err := demoInput()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 3377 {
		t.Errorf("the example has %d rows with its heading", len(all))
	}
	for files := 1; files <= demoMembers; files++ {
		dir := filepath.Join(t.TempDir(), "in")
		if err := writeInput(dir, all, files); err != nil {
			t.Fatal(err)
		}
		rows, n, err := readOutput(dir, all[0])
		if c := compareRows(all[1:], rows); err != nil || n != files || !c.exact() {
			t.Errorf("%d files: %d, %+v, %v", files, n, c, err)
		}
	}
}

func TestReadOutput_RefusesWhatHasNoHeading(t *testing.T) {
	for _, content := range []string{"", "a,b\n1,2\n", "x,y\n1\n"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "part.csv"), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, _, err := readOutput(dir, []string{"x", "y"}); err == nil || !strings.Contains(err.Error(), "part.csv") {
			t.Errorf("%q: %v", content, err)
		}
	}
}

// The example jobs are in the README: they must be jobs.
func TestExamples_AreValidJobs(t *testing.T) {
	demo, err := demoConfig("in", "out", "tmp", 3, 100)
	if err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string][]byte{"airports.json": examples.AirportsJob, "orders.json": examples.OrdersJob, "demo": demo} {
		job, err := config.Parse(body, catalog.New())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(job.Warnings) > 0 {
			t.Errorf("%s: %v", name, job.Warnings)
		}
		if name == "demo" && (job.Parallelism != 3 || job.RowsPerSecond != 100) {
			t.Errorf("demo: %+v", job)
		}
	}
}

func TestDemoBanner(t *testing.T) {
	b := &demoBanner{ready: make(chan struct{})}
	for _, part := range []string{"gridnode dev\n  members    127.0.0.1:40", "01          for members\n", "  http       http://127.0.0.1:8080\n  next", "  gridnode map put\n", "more\n"} {
		select {
		case <-b.ready:
			if part != "more\n" {
				t.Fatalf("ready before %q", part)
			}
		default:
		}
		if n, err := b.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	<-b.ready
	got := []string{b.value("members"), b.value("http"), b.value("nothing")}
	if want := []string{"127.0.0.1:4001", "http://127.0.0.1:8080", ""}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestDemoScreen(t *testing.T) {
	var out bytes.Buffer
	s := newDemoScreen(&out, nil)
	s.progress("one")
	s.progress("too soon")
	s.say("two")
	if got := out.String(); strings.ContainsAny(got, "\r\x1b") || !strings.HasSuffix(got, "  one\n  0.0s  two\n") || strings.Contains(got, "soon") {
		t.Errorf("not a terminal: %q", got)
	}
	out.Reset()
	s.live = true
	s.progress("a long line")
	s.progress("short")
	s.say("done")
	if diff := cmp.Diff("\r  0.0s  a long line\r  0.0s  short      \r             \r  0.0s  done\n", out.String()); diff != "" {
		t.Errorf("on a terminal (-want +got):\n%s", diff)
	}
}

func TestGrouped(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 3376: "3,376", 1234567: "1,234,567", -1000: "-1,000", -100: "-100"} {
		if got := grouped(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}

func TestDemo_UsageErrors(t *testing.T) {
	for _, tt := range []struct{ args, says string }{
		{"demo --kill slave", "slave"}, {"demo --members 0", "--members"}, {"demo --members 8 --kill none", "--members"},
		{"demo --members 2", "majority"}, {"demo extra", "extra"},
	} {
		res := newCLI().run(t.Context(), strings.Fields(tt.args)...)
		if res.code != exitUsage || !strings.Contains(res.stderr, tt.says) || res.stdout != "" {
			t.Errorf("%s: %+v", tt.args, res)
		}
	}
}
