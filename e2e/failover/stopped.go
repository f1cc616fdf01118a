package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// standsStill reports whether every thread of a process has stopped. The signal only asks them to: on a busy machine some go on for a while. Where
// the system does not show threads, it reports true.
func standsStill(pid int) bool {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err == nil && !stoppedIn(line) { // else the thread has ended meanwhile
			return false
		}
	}
	return true
}

// stoppedIn reads the state out of a line of /proc/PID/stat: the letter behind the name, which may itself hold parentheses.
func stoppedIn(line []byte) bool {
	_, after, ok := bytes.Cut(line[max(0, bytes.LastIndexByte(line, ')')):], []byte(") "))
	return ok && len(after) > 0 && (after[0] == 'T' || after[0] == 't')
}
