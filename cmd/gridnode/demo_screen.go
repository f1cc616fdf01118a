package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// demoProgressEvery is how often progress is told where a line cannot be drawn over.
const demoProgressEvery = 2 * time.Second

// demoScreen tells what happens: plain lines with the time in front, and on a terminal one line below them that is drawn over.
type demoScreen struct {
	out   io.Writer
	live  bool
	began time.Time
	drawn int // letters of the line that is drawn over
	told  time.Time
}

func newDemoScreen(out io.Writer, environ []string) *demoScreen {
	return &demoScreen{out: out, live: isTerminal(out) && !slices.Contains(environ, "TERM=dumb"), began: time.Now()}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// stamp puts the time in front.
func (s *demoScreen) stamp(format string, args ...any) string {
	return fmt.Sprintf("%5.1fs  %s", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

// say prints a line.
func (s *demoScreen) say(format string, args ...any) {
	s.clear()
	fmt.Fprintln(s.out, s.stamp(format, args...))
}

// progress shows how far things are.
func (s *demoScreen) progress(format string, args ...any) {
	switch {
	case s.live:
		line := s.stamp(format, args...)
		fmt.Fprintf(s.out, "\r%-*s", s.drawn, line)
		s.drawn = len(line)
	case time.Since(s.told) >= demoProgressEvery:
		s.told = time.Now()
		s.say(format, args...)
	}
}

// clear makes room where the progress is.
func (s *demoScreen) clear() {
	if s.drawn > 0 {
		fmt.Fprintf(s.out, "\r%*s\r", s.drawn, "")
		s.drawn = 0
	}
}

// grouped writes a count with commas between the thousands.
func grouped(n int) string {
	digits := strconv.Itoa(n)
	var b strings.Builder
	for i, c := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 && digits[i-1] != '-' {
			b.WriteByte(',')
		}
		b.WriteRune(c)
	}
	return b.String()
}
