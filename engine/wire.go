package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gridnode/engine/plugin"
)

// op names what a member is asked to do.
type op string

const (
	opOrder   op = "order"   // master to worker: start, confirm or stop tasks
	opCommit  op = "commit"  // master to worker: make prepared output visible
	opCleanup op = "cleanup" // master to worker: remove an incarnation's artefacts
	opBarrier op = "barrier" // master to worker: take a checkpoint of tasks, or end them where they are

	opReport   op = "report"   // worker to master: a task has ended
	opProgress op = "progress" // worker to master: figures of running tasks

	opSubmit       op = "submit" // any member to the master, for a client
	opStop         op = "stop"
	opInfo         op = "info"
	opRunning      op = "running"
	opFinished     op = "finished"
	opFinishedPage op = "finished page"
	opJobs         op = "jobs"
	opOverview     op = "overview"
	opCleanups     op = "cleanups"

	opCheckpoints op = "checkpoints"
	opSavepoints  op = "savepoints"

	opDropSavepoints op = "drop-savepoints"
)

type request struct {
	Op   op
	Body []byte
}

type response struct {
	Code  errCode
	Text  string
	After time.Duration
	Body  []byte
}

// orderRequest asks a worker to start (or confirm) or to stop tasks of one job.
type orderRequest struct {
	JobID, Incarnation string
	Term               uint64
	Stop               bool
	Tasks              []taskRef
}

// orderAnswer has one answer per task.
type orderAnswer struct {
	Tasks   []taskAnswer
	Tallies [][]tally // of the attempts that run, so that a new master has figures at once
}

type taskAnswer int

const (
	answerLater   taskAnswer = iota // nothing is known yet, ask again
	answerRunning                   // it runs, or has ended and the report is on its way
	answerUnknown                   // this worker does not have the attempt, and will not start it as the state was read
)

// commitRequest asks a worker to make an attempt's output visible.
type commitRequest struct {
	JobID, Incarnation string
	Term               uint64
	Ref                taskRef
	Prepared           []preparedOutput
}

type cleanupRequest struct {
	JobID, Incarnation string
	Term               uint64
}

// report is how a task ended. It carries no term.
type report struct {
	JobID, Incarnation string
	Ref                taskRef
	Status             TaskStatus
	Error              string
	Permanent          bool
	Prepared           []preparedOutput
	Tallies            []tally
	End                *taskPoint
}

type progressReport struct{ Tasks []taskProgress }

type taskProgress struct {
	JobID, Incarnation string
	Ref                taskRef
	Tallies            []tally
}

// errCode is the kind of an error on the wire.
type errCode int

const (
	codeOK errCode = iota
	codeOther
	codeRetryable
	codeIndeterminate
	codeInvalid
	codeNotFound
	codeConflict
	codeRetryAfter
	codePreparedLost
	codePermanent
)

// kindOf maps codes to the errors that callers test for.
func (c errCode) kind() error {
	switch c {
	case codeRetryable:
		return ErrRetryable
	case codeIndeterminate:
		return ErrIndeterminate
	case codeInvalid:
		return ErrInvalid
	case codeNotFound:
		return ErrNotFound
	case codeConflict:
		return ErrConflict
	case codePreparedLost:
		return plugin.ErrPreparedLost
	}
	return nil
}

// remoteError is an error of another member, with its words and its kind.
type remoteError struct {
	text string
	kind error
}

func (e *remoteError) Error() string { return e.text }
func (e *remoteError) Unwrap() error { return e.kind }

// errorResponse turns an error into an answer that the other side can turn back.
func errorResponse(err error) response {
	r := response{Code: codeOther, Text: err.Error()}
	if after, ok := errors.AsType[*RetryAfterError](err); ok {
		r.Code, r.After = codeRetryAfter, after.After
		return r
	}
	if _, ok := errors.AsType[*plugin.PermanentError](err); ok {
		r.Code = codePermanent
		return r
	}
	for c := codeRetryable; c <= codePreparedLost; c++ {
		if kind := c.kind(); kind != nil && errors.Is(err, kind) {
			r.Code = c
			break
		}
	}
	return r
}

func (r response) err() error {
	switch r.Code {
	case codeOK:
		return nil
	case codeRetryAfter:
		return &RetryAfterError{Reason: r.Text, After: r.After}
	case codePermanent:
		return &plugin.PermanentError{Err: errors.New(r.Text)}
	}
	return &remoteError{text: r.Text, kind: r.Code.kind()}
}

// ask sends a request to a member, this one included, and decodes the answer into ans, if that is not nil.
func (s *Service) ask(ctx context.Context, timeout time.Duration, to string, o op, req, ans any) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	body := encode(request{Op: o, Body: encode(req)})
	send := s.cfg.Cluster.Call
	if to == s.cfg.Cluster.Self() {
		send = s.Serve
	}
	raw, err := send(ctx, to, body)
	if err != nil {
		if ctx.Err() != nil && !again(err) {
			return fmt.Errorf("%w: %s to member %s: %v", ErrIndeterminate, o, to, err)
		}
		return fmt.Errorf("%s to member %s: %w", o, to, err)
	}
	var r response
	if err := decode(raw, &r); err != nil {
		return err
	}
	switch err := r.err(); {
	case err != nil && r.Code == codeOther && ctx.Err() != nil:
		return fmt.Errorf("%w: %s to member %s: %v", ErrIndeterminate, o, to, err) // it was cut short
	case err != nil || ans == nil:
		return err
	}
	return decode(r.Body, ans)
}
