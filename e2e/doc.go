// Package e2e tests gridnode from outside: real processes that are killed, over HTTP, with nothing of the program's own code.
package e2e
