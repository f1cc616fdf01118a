package clientproto

import (
	"errors"
	"fmt"
	"io"

	"gridnode/grid"
)

// errorCode is one of Hazelcast's codes; clients decide by it alone. Source: ClientProtocolErrorCodes of 4.x and later.
type errorCode int32

const (
	codeAuthentication     errorCode = 3
	codeNotActive          errorCode = 19
	codeOverload           errorCode = 20
	codeSerialization      errorCode = 21
	codeIllegalArgument    errorCode = 23
	codeIllegalMonitor     errorCode = 26
	codeQuery              errorCode = 40
	codeReachedMaxSize     errorCode = 43
	codeRetryable          errorCode = 46 // every client tries again
	codeRuntime            errorCode = 48
	codeUnsupported        errorCode = 61
	codeAccessControl      errorCode = 64
	codeMaxMessageSize     errorCode = 69
	codeIndeterminateState errorCode = 80
)

// classes are the Java classes of the codes in use; they are only shown.
var classes = map[errorCode]string{
	codeAuthentication:     "com.hazelcast.client.AuthenticationException",
	codeNotActive:          "com.hazelcast.core.HazelcastInstanceNotActiveException",
	codeOverload:           "com.hazelcast.core.HazelcastOverloadException",
	codeSerialization:      "com.hazelcast.nio.serialization.HazelcastSerializationException",
	codeIllegalArgument:    "java.lang.IllegalArgumentException",
	codeIllegalMonitor:     "java.lang.IllegalMonitorStateException",
	codeQuery:              "com.hazelcast.query.QueryException",
	codeReachedMaxSize:     "com.hazelcast.map.ReachedMaxSizeException",
	codeRetryable:          "com.hazelcast.spi.exception.RetryableHazelcastException",
	codeRuntime:            "java.lang.RuntimeException",
	codeUnsupported:        "java.lang.UnsupportedOperationException",
	codeAccessControl:      "java.security.AccessControlException",
	codeMaxMessageSize:     "com.hazelcast.client.impl.protocol.exception.MaxMessageSizeExceeded",
	codeIndeterminateState: "com.hazelcast.core.IndeterminateOperationStateException",
}

// clientError is an error with the code that a client is to see.
type clientError struct {
	code errorCode
	text string
}

func (e *clientError) Error() string { return e.text }

func fail(code errorCode, format string, args ...any) error {
	return &clientError{code, fmt.Sprintf(format, args...)}
}

// codeOf chooses the code. What did not run, every client tries again by itself; what may have run must not look like either a success or a
// failure.
func codeOf(err error) errorCode {
	if e, ok := errors.AsType[*clientError](err); ok {
		return e.code
	}
	switch {
	case grid.KindOf(err) == grid.Indeterminate:
		return codeIndeterminateState // whatever else it says: a client may try again by itself what has one of the codes below
	case errors.Is(err, errTooLarge), errors.Is(err, grid.ErrTooLarge):
		return codeMaxMessageSize
	case errors.Is(err, errMalformed), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, grid.ErrBadMessage):
		return codeSerialization
	case errors.Is(err, grid.ErrClosed):
		return codeNotActive
	case errors.Is(err, grid.ErrBadRequest):
		return codeIllegalArgument
	case errors.Is(err, grid.ErrNotOwner):
		return codeIllegalMonitor
	case errors.Is(err, grid.ErrMemory):
		return codeReachedMaxSize
	}
	if grid.KindOf(err) == grid.Retryable {
		return codeRetryable
	}
	return codeRuntime
}

// failure is the answer that carries an error.
func failure(id uint64, err error) []byte {
	e := newAnswer(0, id)
	code := codeOf(err)
	e.open()
	e.open()
	e.begin(0)
	e.int32(int32(code))
	e.string(classes[code])
	e.string(err.Error())
	e.open() // the stack trace: none
	e.close()
	e.close()
	e.close()
	return e.bytes()
}
