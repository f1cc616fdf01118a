package engine

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
)

// Submit accepts a job. Once it returns without an error the job is durable. An error of the kind ErrInvalid, ErrConflict or ErrRetryable
// says that it was not accepted; after ErrIndeterminate a repeat with the same job id or submit key finds out.
func (s *Service) Submit(ctx context.Context, req SubmitRequest) (SubmitResult, error) {
	id, err := checkSubmit(req)
	if err != nil {
		return SubmitResult{}, err
	}
	if err := s.checkConfig(req); err != nil {
		return SubmitResult{}, err
	}
	choose := id == "" && req.SubmitKey == ""
	req.Chosen = choose
	switch {
	case choose:
		req.SubmitKey = uuid.NewString()
	case id == "":
		id = idOfKey(req.SubmitKey)
	}
	for tries := 0; ; tries++ {
		req.JobID = id
		if choose {
			req.JobID = newJobID(time.Now())
		}
		res, err := viaMaster(ctx, s, opSubmit, req, idempotent, submitLocal)
		switch {
		case errors.Is(err, ErrIndeterminate):
			return res, fmt.Errorf("submit of job %s: %w", req.JobID, err)
		case !choose || !errors.Is(err, ErrConflict) || tries == maxChoices:
			return res, err
		}
	}
}

// checkSubmit returns the job id in its one form, or "" if there is none.
func checkSubmit(req SubmitRequest) (string, error) {
	id := ""
	if req.JobID != "" {
		n, err := parseJobID(req.JobID)
		if err != nil {
			return "", err
		}
		if n <= 0 {
			return "", fmt.Errorf("%w: jobId %q must be above 0", ErrInvalid, req.JobID)
		}
		id = strconv.FormatInt(n, 10)
	}
	if req.StartWithSavepoint && id == "" {
		return "", fmt.Errorf("%w: jobId is required to start with a savepoint", ErrInvalid)
	}
	return id, nil
}

func parseJobID(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: jobId %q is not a decimal 64-bit number", ErrInvalid, s)
	}
	return n, nil
}

// maxJobName bounds a job's name, in bytes: it is kept with the job's info, state and history, and shown in every list.
const maxJobName = 1024

// checkName refuses a name that nobody can print in one line. It is asked of new jobs only: those that were accepted before keep theirs.
func checkName(option, name string) error {
	control := strings.IndexFunc(name, unicode.IsControl)
	switch {
	case len(name) > maxJobName:
		return fmt.Errorf("%w: %s has %d bytes; at most %d are allowed", ErrInvalid, option, len(name), maxJobName)
	case !utf8.ValidString(name):
		return fmt.Errorf("%w: %s is not UTF-8: %q", ErrInvalid, option, name)
	case control >= 0:
		return fmt.Errorf("%w: %s is %q, with a control character at byte %d", ErrInvalid, option, name, control)
	case name != "" && strings.TrimSpace(name) == "":
		return fmt.Errorf("%w: %s is blank", ErrInvalid, option)
	}
	return nil
}

func (s *Service) checkConfig(req SubmitRequest) error {
	plan, err := s.cfg.Parse(req.Config)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if err := errors.Join(checkName("jobName", req.JobName), checkName(`env: option "job.name"`, plan.Name)); err != nil {
		return err
	}
	if err := checkSize(plan); err != nil {
		return err
	}
	st := newState(jobInfo{}, plan, 0)
	for _, p := range plan.Pipelines {
		for _, v := range p.Vertices {
			if err := restorable(v); err != nil && plan.Checkpoint.Interval > 0 {
				return fmt.Errorf("%w: env: option \"checkpoint.interval\": %w", ErrInvalid, err)
			}
		}
	}
	for _, p := range st.Pipelines {
		if len(p.Tasks) == 0 {
			return fmt.Errorf("%w: pipeline %d has no source", ErrInvalid, p.ID)
		}
	}
	if len(st.Pipelines) == 0 {
		return fmt.Errorf("%w: the config has no source", ErrInvalid)
	}
	return nil
}

const (
	jobIDEpoch = 1735689600000 // 2025-01-01 in Unix milliseconds
	randomBits = 12
	jobIDMask  = 1<<53 - 1
	maxChoices = 10 // ids that are tried for a job: in one millisecond two may choose the same
)

// newJobID returns an id below 2^53 that grows with time, down to the millisecond, and is random below that.
func newJobID(now time.Time) string {
	ms := now.UnixMilli() - jobIDEpoch
	if ms <= 0 { // the clock is wrong: random has to do
		return strconv.FormatInt(rand.Int64N(jobIDMask)|1, 10)
	}
	return strconv.FormatInt((ms<<randomBits|rand.Int64N(1<<randomBits))&jobIDMask|1, 10)
}

// idOfKey gives every repeat of a submit the same id, on whatever member it arrives.
func idOfKey(key string) string {
	sum := sha256.Sum256([]byte(key))
	return strconv.FormatUint(binary.BigEndian.Uint64(sum[:])&jobIDMask|1, 10)
}

// submitLocal is Submit on the master; req has an id.
func submitLocal(ctx context.Context, c *coordinator, req SubmitRequest) (SubmitResult, error) {
	s := c.s
	plan, err := s.cfg.Parse(req.Config)
	if err != nil {
		return SubmitResult{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if req.StartWithSavepoint {
		return resumeLocal(ctx, c, req, plan)
	}
	info := jobInfo{Incarnation: uuid.NewString(), SubmitKey: req.SubmitKey, Name: plan.Name, Config: req.Config, CreatedMs: time.Now().UnixMilli()}
	if req.JobName != "" {
		info.Name = req.JobName
	}
	st := newState(info, plan, c.term)
	res := SubmitResult{JobID: req.JobID, JobName: info.Name, Status: JobCreated, Warnings: plan.Warnings}
	tooLarge := c.tooLarge(st, plan.Tags)
	err = update(ctx, s.cfg.Store, req.JobID, func(snap snapshot) (Txn, error) {
		if name, status, ok := submittedBefore(snap, req.SubmitKey, req.Chosen); ok {
			res.JobName, res.Status = name, status
			return Txn{}, errNothing
		}
		txn, err := submitTxn(snap, info, st, time.Now().UnixMilli(), s.cfg.StateCleanupDelay+time.Second)
		if err == nil && tooLarge != "" {
			err = fmt.Errorf("%w: job %s cannot run here: %s", ErrConflict, req.JobID, tooLarge)
		}
		return txn, err
	})
	if err := ignoring(err, errNothing); err != nil {
		return SubmitResult{}, err
	}
	s.cfg.Logger.Info("job accepted", "job", req.JobID, "name", res.JobName, "term", c.term)
	c.adoptSoon(req.JobID)
	return res, nil
}

// tooLarge returns why a job that was just submitted can never get its slots, or "". A job that is to wait would wait for ever; with REJECT it
// is accepted and fails.
func (c *coordinator) tooLarge(st *jobState, tags map[string]string) string {
	if c.s.cfg.ScheduleStrategy == ScheduleReject {
		return ""
	}
	n := 0
	for _, p := range st.Pipelines {
		n += len(p.Tasks)
	}
	members, _ := c.s.cfg.Cluster.Members()
	return c.slots.impossible(n, tags, members)
}

// Stop asks for a job to be canceled, or to be stopped with a savepoint. It returns when the intent is durable; the job then converges to CANCELED or
// SAVEPOINT_DONE, or to the end that it had already come to.
func (s *Service) Stop(ctx context.Context, req StopRequest) error {
	n, err := parseJobID(req.JobID)
	if err != nil {
		return err
	}
	req.JobID = strconv.FormatInt(n, 10)
	_, err = viaMaster(ctx, s, opStop, req, idempotent, stopLocal)
	return err
}

// endOf returns the terminal status of a job, or "" if it has not ended or is not known.
func endOf(snap snapshot) JobStatus {
	switch {
	case snap.state != nil:
		if snap.state.Status.Final() {
			return snap.state.Status
		}
	case snap.record != nil:
		return snap.record.Status
	case snap.info == nil && snap.history != nil:
		return snap.history.View.Status
	}
	return ""
}

func stopLocal(ctx context.Context, c *coordinator, req StopRequest) (struct{}, error) {
	intent, end := cancelTxn, JobCanceled
	if req.Savepoint {
		intent, end = c.savepointTxn, JobSavepointDone
	}
	err := update(ctx, c.s.cfg.Store, req.JobID, func(snap snapshot) (Txn, error) {
		if endOf(snap) == end {
			return Txn{}, errNothing // what is asked for is so, perhaps by an earlier try of the same request
		}
		return intent(snap)
	})
	if err := ignoring(err, errNothing); err != nil {
		if errors.Is(err, ErrRetryable) {
			c.adoptSoon(req.JobID) // if its state is missing, that is repaired at once
		}
		return struct{}{}, err
	}
	c.s.cfg.Logger.Info("job is to be stopped", "job", req.JobID, "savepoint", req.Savepoint)
	if d := c.driver(req.JobID); d != nil {
		d.poke()
	} else {
		c.adoptSoon(req.JobID)
	}
	return struct{}{}, nil
}
