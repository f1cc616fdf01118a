package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

// Exit codes of job wait: FINISHED is exitOK, FAILED exitFailed.
const (
	exitCanceled  = 3
	exitSavepoint = 4
	exitTimeout   = 124
)

const (
	maxPoll     = time.Second      // between two questions
	learnAgain  = 10 * time.Second // between two questions who is a member
	waitSilence = time.Minute      // without any answer, before job wait gives up
)

var errWaitTimeout = errors.New("timeout")

type waitOptions struct {
	timeout     time.Duration // 0: none
	json, quiet bool
}

func (a *app) jobWait(flags *clientFlags) *cobra.Command {
	var o waitOptions
	cmd := &cobra.Command{
		Use: "wait ID", Short: "Wait until a job has ended", Args: cobra.ExactArgs(1),
		Long: "Wait until a job has ended. The death of the member that is asked does not matter as long as another one lives.\n" +
			"Exit codes: 0 FINISHED, 1 FAILED, 3 CANCELED, 4 SAVEPOINT_DONE, 124 timeout.",
	}
	cmd.Flags().DurationVar(&o.timeout, "timeout", 0, "how long (default: until it has ended)")
	cmd.Flags().BoolVarP(&o.quiet, "quiet", "q", false, "print nothing")
	cmd.RunE = a.withClient(flags, func(cmd *cobra.Command, c *client, args []string) error {
		o.json = flags.json()
		return a.wait(cmd.Context(), c, args[0], o)
	})
	return cmd
}

// wait asks until the job has ended. It returns nil for a job that is FINISHED, else an error with the exit code.
func (a *app) wait(ctx context.Context, c *client, id string, o waitOptions) error {
	if o.timeout < 0 {
		return usage(fmt.Errorf("--timeout: %v is negative", o.timeout))
	}
	if o.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.timeout, errWaitTimeout)
		defer cancel()
	}
	c.patience = max(c.patience, waitSilence)
	began := time.Now()
	var learned time.Time
	for every := a.poll; ; every = min(every*2, maxPoll) {
		var j job
		raw, err := c.get(ctx, jobPath(id), &j)
		switch {
		case errors.Is(context.Cause(ctx), errWaitTimeout):
			return &exitError{exitTimeout, fmt.Errorf("job %s has not ended within %v", id, o.timeout)}
		case err != nil:
			return err
		case j.JobStatus == "":
			return noSuchJob(id)
		}
		if err, ended := ended(j); ended {
			return errors.Join(a.showEnd(j, raw, time.Since(began), o), err)
		}
		if time.Since(learned) > learnAgain {
			if err := c.learn(ctx); err == nil { // else the next round asks again
				learned = time.Now()
			}
		}
		if err := pause(ctx, every); err != nil && !errors.Is(err, errWaitTimeout) {
			return err
		}
	}
}

// ended returns how the program has to end if the job has.
func ended(j job) (err error, ended bool) {
	switch j.JobStatus {
	case "FINISHED":
		return nil, true
	case "FAILED":
		return &exitError{exitFailed, fmt.Errorf("job %s FAILED: %s", j.JobID, j.ErrorMsg)}, true
	case "CANCELED":
		return &exitError{code: exitCanceled}, true
	case "SAVEPOINT_DONE":
		return &exitError{code: exitSavepoint}, true
	}
	return nil, false
}

func (a *app) showEnd(j job, raw []byte, waited time.Duration, o waitOptions) error {
	var err error
	switch {
	case o.quiet:
	case o.json:
		err = printRaw(a.stdout, raw)
	default:
		_, err = fmt.Fprintf(a.stdout, "%s %s  read %s  written %s  restarts %s  waited %s\n",
			plain(j.JobName), j.JobStatus, j.Metrics.SourceReceivedCount, j.Metrics.SinkWriteCount, j.Restarts, seconds(waited))
	}
	return err
}
