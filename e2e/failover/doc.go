// Failover kills, stops and replaces members of a real cluster under load, and measures how long clients notice.
//
//	go run ./e2e/failover -kills 50
//
// It starts gridnode processes of its own and leaves nothing behind. Its last line is the result; the exit code is not 0 if an acknowledged
// write was lost or an answer was wrong.
package main
