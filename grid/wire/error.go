package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"

	"gridnode/grid"
)

// maxErrorText bounds the text of an error on the wire.
const maxErrorText = 1 << 10

// RemoteError is an error that another member answered with: errors.Is finds its sentinel, Error says what the member said.
type RemoteError struct {
	Sentinel *grid.Error
	Text     string
}

func (e *RemoteError) Error() string { return e.Text }

// Unwrap returns the sentinel.
func (e *RemoteError) Unwrap() error { return e.Sentinel }

// AppendError appends the body of a [Failure]: the sentinel's code and the text. What wraps no sentinel travels as grid.ErrInternal, a context
// that ended as grid.ErrIndeterminate, a rejected command as grid.ErrRefused.
func AppendError(dst []byte, err error) []byte {
	dst = binary.BigEndian.AppendUint16(dst, sentinelOf(err).Code())
	text := err.Error()
	if len(text) > maxErrorText {
		text = strings.ToValidUTF8(text[:maxErrorText], "")
	}
	return append(dst, text...)
}

func sentinelOf(err error) *grid.Error {
	if e, ok := errors.AsType[*grid.Error](err); ok {
		return e
	}
	if _, ok := errors.AsType[*grid.Rejected](err); ok {
		return grid.ErrRefused
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return grid.ErrIndeterminate
	}
	return grid.ErrInternal
}

// DecodeError reads the body of a [Failure]. The error is a [*RemoteError], or grid.ErrIndeterminate if the body is malformed: something
// answered, but what is unknown.
func DecodeError(body []byte) error {
	if len(body) < 2 || len(body) > 2+maxErrorText {
		return &RemoteError{grid.ErrIndeterminate, "malformed error answer"}
	}
	return &RemoteError{grid.ErrorOf(binary.BigEndian.Uint16(body)), strings.ToValidUTF8(string(body[2:]), "?")}
}
