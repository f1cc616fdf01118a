package rest

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"
)

func TestServer_ListensBeforeItRuns_AndLetsOpenRequestsEnd(t *testing.T) {
	f := newFixture(t)
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- f.Run(ctx) }()

	client := &http.Client{Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	res, err := client.Get("http://" + f.Addr().String() + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	if got := readAll(t, res.Body); got != "ok\n" || res.Header.Get("Server") != "gridnode/0.1.0" {
		t.Errorf("%q from %q", got, res.Header.Get("Server"))
	}
	_ = res.Body.Close()

	stop()
	if err := <-ran; err != nil {
		t.Errorf("Run: %v", err)
	}
	if rec := f.do("GET", "/readyz", ""); rec.Code != http.StatusServiceUnavailable {
		t.Errorf("readyz of a stopped server: %d", rec.Code)
	}
	if conn, err := net.Dial("tcp", f.Addr().String()); err == nil {
		_ = conn.Close()
		t.Error("it still listens")
	}
}

func TestNew_PortInUse(t *testing.T) {
	f := newFixture(t)
	cfg := Config{Addr: f.Addr().String(), Jobs: f.jobs, Maps: f.maps, Grid: f.grid}
	if s, err := New(cfg); err == nil {
		_ = s.Close()
		t.Error("no error")
	}
}

func TestNew_NeedsItsParts(t *testing.T) {
	if _, err := New(Config{Addr: "127.0.0.1:0"}); err == nil {
		t.Error("no error")
	}
}

func TestHeadAndOptions(t *testing.T) {
	f := newFixture(t)
	if rec := f.do("HEAD", "/overview", ""); rec.Code != http.StatusOK {
		t.Errorf("HEAD: %d", rec.Code)
	}
	rec := f.do("OPTIONS", "/api/v1/maps/m/entries/k", "")
	if got := rec.Header().Get("Allow"); rec.Code != http.StatusNoContent || got != "DELETE, GET, HEAD, OPTIONS, PUT" {
		t.Errorf("OPTIONS: %d, Allow %q", rec.Code, got)
	}
}

func TestCollectSystemInfo(t *testing.T) {
	info := CollectSystemInfo()
	if info.Processors < 1 || info.Goroutines < 1 || info.HeapUsed == 0 {
		t.Errorf("%+v", info)
	}
	var mem SystemInfo
	mem.readMemory("MemTotal:  8 kB\nMemAvailable: 4 kB\nSwapTotal: x kB\nbroken\n")
	if mem.PhysicalTotal != 8192 || mem.PhysicalFree != 4096 {
		t.Errorf("%+v", mem)
	}
}
