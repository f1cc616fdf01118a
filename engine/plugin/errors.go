package plugin

import (
	"errors"
	"fmt"
)

// ErrPreparedLost is what [Sink.Commit] returns when prepared output no longer exists and was not committed either.
var ErrPreparedLost = errors.New("prepared output is lost")

// PermanentError marks an error that a retry cannot cure (bad data, a failed assertion): the job fails without using up its retries.
type PermanentError struct{ Err error }

// Error returns the text of the error that is marked.
func (e *PermanentError) Error() string { return e.Err.Error() }

// Unwrap returns the error that is marked.
func (e *PermanentError) Unwrap() error { return e.Err }

// Permanentf returns a [PermanentError] with that text.
func Permanentf(format string, args ...any) error {
	return &PermanentError{Err: fmt.Errorf(format, args...)}
}

// OptionError says which option of which plugin (or of env) is wrong. Its text always names the option.
type OptionError struct {
	Where  string // for example "source[0] (FakeSource)" or "env"
	Option string // for example "row.num"
	Reason string
}

// Error names the plugin, the option and the reason.
func (e *OptionError) Error() string {
	return fmt.Sprintf("%s: option %q %s", e.Where, e.Option, e.Reason)
}
