package grid

import (
	"context"
	"errors"
)

// Kind says what an error tells about the operation that returned it. The three are never mixed.
type Kind uint8

// The kinds of error.
const (
	Definite      Kind = iota // it was refused, or ran and failed: the same call fails again
	Retryable                 // it did not run: the same call may be made again
	Indeterminate             // it may have run, and may still run
)

func (k Kind) String() string {
	switch k {
	case Retryable:
		return "retryable"
	case Indeterminate:
		return "indeterminate"
	}
	return "definite"
}

// Error is a sentinel: its identity is its code on the wire. Compare with errors.Is.
type Error struct {
	code uint16
	kind Kind
	text string
}

func (e *Error) Error() string { return e.text }

// Code is the error's number on the wire.
func (e *Error) Code() uint16 { return e.code }

// Kind is what the error tells about the operation.
func (e *Error) Kind() Kind { return e.kind }

// The sentinels. Codes are never used twice.
var (
	ErrNotPrimary    = &Error{1, Retryable, "this member is not the primary of the partition"}
	ErrStaleEpoch    = &Error{2, Retryable, "the partition has a newer epoch"}
	ErrNotReady      = &Error{3, Retryable, "the partition is not ready to serve"}
	ErrUnreachable   = &Error{4, Retryable, "the member cannot be reached"}
	ErrNoMaster      = &Error{5, Retryable, "there is no master at the moment"}
	ErrNotMaster     = &Error{6, Retryable, "this member is not the master"}
	ErrNoLease       = &Error{7, Retryable, "this member's lease has lapsed"}
	ErrNotJoined     = &Error{8, Retryable, "this member has not joined a cluster yet"}
	ErrOverloaded    = &Error{9, Retryable, "too many requests are waiting"}
	ErrPartitionLost = &Error{10, Retryable, "all replicas of the partition are lost; it waits for an operator"}
	ErrBusy          = &Error{11, Retryable, "what the operation waits for has not come"}
	ErrNoQuorum      = &Error{12, Retryable, "no majority of the voters can be reached"}
	ErrIndeterminate = &Error{20, Indeterminate, "the outcome of the operation is unknown"}
	ErrTooLarge      = &Error{30, Definite, "too large"}
	ErrBadMessage    = &Error{31, Definite, "malformed message"}
	ErrBadRequest    = &Error{32, Definite, "bad request"}
	ErrClosed        = &Error{33, Retryable, "this member is shutting down"}
	ErrRefused       = &Error{34, Definite, "refused"}
	ErrInternal      = &Error{35, Definite, "internal error"}
	ErrMemory        = &Error{40, Definite, "out of memory for entries"}
	ErrNotOwner      = &Error{41, Definite, "the lock has another owner, or none"}
)

var sentinels = []*Error{
	ErrNotPrimary, ErrStaleEpoch, ErrNotReady, ErrUnreachable, ErrNoMaster, ErrNotMaster, ErrNoLease, ErrNotJoined, ErrOverloaded,
	ErrPartitionLost, ErrBusy, ErrNoQuorum, ErrIndeterminate, ErrTooLarge, ErrBadMessage, ErrBadRequest, ErrClosed, ErrRefused,
	ErrInternal, ErrMemory, ErrNotOwner,
}

// ErrorOf returns the sentinel of a wire code; an unknown code is ErrIndeterminate, the kind that claims nothing.
func ErrorOf(code uint16) *Error {
	for _, e := range sentinels {
		if e.code == code {
			return e
		}
	}
	return ErrIndeterminate
}

// SentinelOf returns the sentinel that err wraps, or ErrInternal.
func SentinelOf(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return ErrInternal
}

// KindOf tells what err says about the operation. A context that ended says nothing about it, so that is Indeterminate.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.kind
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return Indeterminate
	}
	return Definite
}
