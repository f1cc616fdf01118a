package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
)

const maxConfig = 4 << 20

// job is a job as REST shows it, live or ended.
type job struct {
	JobID         string
	JobName       string
	JobStatus     string
	CreateTime    string
	FinishTime    string
	ErrorMsg      string
	Restarts      string
	PendingReason string
	Metrics       struct{ SourceReceivedCount, SinkWriteCount string }
	Tasks         []struct {
		Pipeline, Source, Subtask, Attempt int
		Status, Member                     string
	}
}

func (a *app) jobCommand() *cobra.Command {
	cmd := noun("job", "Submit, watch and stop jobs")
	flags := addClientFlags(cmd)
	cmd.AddCommand(a.jobSubmit(flags), a.jobList(flags), a.jobInfo(flags), a.jobWait(flags), a.jobStop(flags))
	return cmd
}

// submitOptions are the flags of job submit.
type submitOptions struct {
	name, id              string
	savepoint, wait, json bool
	quiet                 bool
	timeout               time.Duration // with wait
}

func (a *app) jobSubmit(flags *clientFlags) *cobra.Command {
	var o submitOptions
	cmd := &cobra.Command{
		Use: "submit FILE|-", Short: "Submit a job from a JSON file, or from standard input", Args: cobra.ExactArgs(1),
		Example: "  gridnode job submit orders.json --wait",
	}
	cmd.Flags().StringVar(&o.name, "name", "", "name of the job, instead of the one in the file")
	cmd.Flags().StringVar(&o.id, "id", "", "id of the job, a number (default: one is chosen)")
	cmd.Flags().BoolVar(&o.savepoint, "savepoint", false, "start from the savepoint with which the job of that id was stopped")
	cmd.Flags().BoolVar(&o.wait, "wait", false, "wait until the job has ended, like job wait")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 0, "with --wait: how long (default: until it has ended)")
	cmd.Flags().BoolVarP(&o.quiet, "quiet", "q", false, "print the id only")
	cmd.RunE = a.withClient(flags, func(cmd *cobra.Command, c *client, args []string) error {
		config, err := a.readConfig(args[0])
		if err != nil {
			return usage(err)
		}
		o.json = flags.json()
		return a.submit(cmd.Context(), c, config, o)
	})
	return cmd
}

// submit sends the job with a key of its own, so that it may be sent again when the answer is lost.
func (a *app) submit(ctx context.Context, c *client, config []byte, o submitOptions) error {
	query := url.Values{}
	for param, value := range map[string]string{"jobName": o.name, "jobId": o.id} {
		if value != "" {
			query.Set(param, value)
		}
	}
	if o.savepoint {
		query.Set("isStartWithSavePoint", "true")
	}
	rep, err := c.do(ctx, request{
		method: http.MethodPost, path: "/submit-job?" + query.Encode(), body: config, repeatable: true,
		header: map[string]string{"Idempotency-Key": uuid.NewString(), "Content-Type": "application/json"},
	})
	if err != nil {
		return err
	}
	id, err := a.showSubmit(rep, o)
	if err != nil || !o.wait {
		return err
	}
	return a.wait(ctx, c, id, waitOptions{timeout: o.timeout, json: o.json, quiet: o.quiet})
}

func (a *app) showSubmit(rep reply, o submitOptions) (id string, err error) {
	var submitted struct {
		job
		Warnings []string
	}
	if err := json.Unmarshal(rep.body, &submitted); err != nil || submitted.JobID == "" {
		return "", fmt.Errorf("the answer to the submit cannot be read: %s", rep.body)
	}
	for _, w := range submitted.Warnings {
		fmt.Fprintf(a.stderr, "gridnode: warning: %s\n", plain(w))
	}
	switch {
	case o.quiet:
		_, err = fmt.Fprintln(a.stdout, submitted.JobID)
	case !o.json:
		err = table(a.stdout, [][]string{{"JOB ID", "NAME", "STATUS"}, {submitted.JobID, submitted.JobName, submitted.JobStatus}})
	case !o.wait: // else the job as it ended is the one JSON value of the output
		err = printRaw(a.stdout, rep.body)
	}
	return submitted.JobID, err
}

func (a *app) readConfig(name string) ([]byte, error) {
	in := a.stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }()
		in = file
	}
	data, err := io.ReadAll(io.LimitReader(in, maxConfig+1))
	if err == nil && len(data) > maxConfig {
		err = fmt.Errorf("%s is larger than %d bytes", name, maxConfig)
	}
	return data, err
}

func (a *app) jobList(flags *clientFlags) *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List jobs: those that run, then those that have ended", Args: cobra.NoArgs,
		RunE: a.withClient(flags, func(cmd *cobra.Command, c *client, _ []string) error {
			var raws []json.RawMessage
			for _, path := range []string{"/running-jobs", "/finished-jobs"} {
				var part []json.RawMessage
				if _, err := c.get(cmd.Context(), path, &part); err != nil {
					return err
				}
				raws = append(raws, part...)
			}
			if flags.json() {
				return printJSON(a.stdout, slices.Concat([]json.RawMessage{}, raws))
			}
			rows := [][]string{{"JOB ID", "NAME", "STATUS", "CREATED", "ENDED", "READ", "WRITTEN"}}
			for _, raw := range raws {
				var j job
				if err := json.Unmarshal(raw, &j); err != nil {
					return fmt.Errorf("the list of jobs cannot be read: %w", err)
				}
				rows = append(rows, []string{j.JobID, j.JobName, j.JobStatus, j.CreateTime, j.FinishTime, j.Metrics.SourceReceivedCount, j.Metrics.SinkWriteCount})
			}
			return table(a.stdout, rows)
		}),
	}
}

func noSuchJob(id string) error { return fmt.Errorf("there is no job %s", id) }

func jobPath(id string) string { return "/job-info/" + url.PathEscape(id) }

func (a *app) jobInfo(flags *clientFlags) *cobra.Command {
	return &cobra.Command{
		Use: "info ID", Short: "Show a job", Args: cobra.ExactArgs(1),
		RunE: a.withClient(flags, func(cmd *cobra.Command, c *client, args []string) error {
			var j job
			raw, err := c.get(cmd.Context(), jobPath(args[0]), &j)
			if err != nil {
				return err
			}
			if j.JobStatus == "" {
				return noSuchJob(j.JobID)
			}
			if flags.json() {
				return printRaw(a.stdout, raw)
			}
			return a.showJob(j)
		}),
	}
}

func (a *app) showJob(j job) error {
	rows := [][]string{
		{"id", j.JobID}, {"name", j.JobName}, {"status", j.JobStatus}, {"created", j.CreateTime}, {"ended", j.FinishTime},
		{"read", j.Metrics.SourceReceivedCount}, {"written", j.Metrics.SinkWriteCount}, {"restarts", j.Restarts},
	}
	if j.PendingReason != "" {
		rows = append(rows, []string{"waits for", j.PendingReason})
	}
	if j.ErrorMsg != "" {
		rows = append(rows, []string{"error", j.ErrorMsg})
	}
	if err := table(a.stdout, rows); err != nil || len(j.Tasks) == 0 {
		return err
	}
	tasks := [][]string{{"PIPELINE", "SOURCE", "SUBTASK", "STATUS", "ATTEMPT", "MEMBER"}}
	for _, t := range j.Tasks {
		tasks = append(tasks, []string{strconv.Itoa(t.Pipeline), strconv.Itoa(t.Source), strconv.Itoa(t.Subtask), t.Status, strconv.Itoa(t.Attempt), t.Member})
	}
	fmt.Fprintln(a.stdout)
	return table(a.stdout, tasks)
}

func (a *app) jobStop(flags *clientFlags) *cobra.Command {
	var savepoint, force bool
	cmd := &cobra.Command{Use: "stop ID", Short: "Stop a job", Args: cobra.ExactArgs(1)}
	cmd.Flags().BoolVar(&savepoint, "savepoint", false, "take a savepoint first")
	cmd.Flags().BoolVar(&force, "force", false, "the same as without: a stop never waits for tasks that do not answer")
	cmd.RunE = a.withClient(flags, func(cmd *cobra.Command, c *client, args []string) error {
		body, err := json.Marshal(map[string]any{"jobId": strings.TrimSpace(args[0]), "isStopWithSavePoint": savepoint, "force": force})
		if err != nil {
			return err
		}
		rep, err := c.do(cmd.Context(), request{method: http.MethodPost, path: "/stop-job", body: body, repeatable: true,
			header: map[string]string{"Content-Type": "application/json"}})
		if err != nil {
			return err
		}
		if flags.json() {
			return printRaw(a.stdout, rep.body)
		}
		_, err = fmt.Fprintf(a.stdout, "job %s is being stopped\n", args[0])
		return err
	})
	return cmd
}
