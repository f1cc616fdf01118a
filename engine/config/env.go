package config

import (
	"fmt"
	"math"
	"time"

	"gridnode/engine/plugin"
	"gridnode/engine/plugin/option"
)

// Defaults of env, as SeaTunnel has them.
const (
	defaultName          = "SeaTunnel_Job"
	defaultRetryTimes    = 3
	defaultRetryInterval = 3 // seconds
	maxRetryInterval     = 24 * 3600
)

// readEnv reads the block env, which may be missing.
func readEnv(top plugin.Object) (*Job, error) {
	env := plugin.Object{}
	if v, found := top.Get("env"); found && v != nil {
		o, ok := v.(plugin.Object)
		if !ok {
			return nil, topError("env", "must be an object")
		}
		env = o
	}
	job := &Job{Env: map[string]string{}}
	values := map[string]any{}
	for _, m := range env {
		values[m.Key] = m.Value
		if m.Value != nil {
			job.Env[m.Key] = text(m.Value)
		}
	}
	r := option.New(plugin.Options{Where: "env", Values: values})
	job.Name = r.String("job.name", defaultName)
	job.Mode = plugin.Mode(r.Choice("job.mode", string(plugin.Batch), string(plugin.Batch), string(plugin.Streaming)))
	job.Parallelism = int(r.Int("parallelism", 1, 1, maxParallelism))
	job.RetryTimes = int(r.Int("job.retry.times", defaultRetryTimes, 0, math.MaxInt32))
	job.RetryInterval = time.Duration(r.Int("job.retry.interval.seconds", defaultRetryInterval, 0, maxRetryInterval)) * time.Second
	job.RowsPerSecond = int(r.Int("read_limit.rows_per_second", 0, 1, math.MaxInt32))
	job.BytesPerSec = int(r.Int("read_limit.bytes_per_second", 0, 1, math.MaxInt32))
	job.Tags = tagFilter(r)
	job.Checkpoint = readCheckpoint(r)
	job.Warnings = idleOptions(r)
	return job, r.Done()
}

// Bounds of a tag_filter: a member has no more attributes, and none that are longer.
const (
	maxTags     = 64
	maxTagBytes = 255
)

// tagFilter reads the tags that a worker must have to get tasks of the job.
func tagFilter(r *option.Reader) map[string]string {
	pairs := r.Pairs("tag_filter")
	if len(pairs) > maxTags {
		r.Fail("tag_filter", "has %d tags, more than %d", len(pairs), maxTags)
	}
	var tags map[string]string
	for _, p := range pairs {
		if len(p.Key) > maxTagBytes || len(p.Value) > maxTagBytes {
			r.Fail("tag_filter", "has a tag with a name of %d and a value of %d bytes; no member has more than %d", len(p.Key), len(p.Value), maxTagBytes)
		}
		if tags == nil {
			tags = map[string]string{}
		}
		tags[p.Key] = p.Value
	}
	return tags
}

// minCheckpoint is the shortest checkpoint.interval and checkpoint.timeout, in milliseconds.
const minCheckpoint = 10

func readCheckpoint(r *option.Reader) Checkpoint {
	ms := func(name string, low int64) time.Duration {
		return time.Duration(r.Int(name, 0, low, math.MaxInt32)) * time.Millisecond
	}
	return Checkpoint{
		Interval: ms("checkpoint.interval", minCheckpoint), Timeout: ms("checkpoint.timeout", minCheckpoint), MinPause: ms("checkpoint.min-pause", 0),
		RetainCanceled: r.Bool("checkpoint.retain-after-job-cancelled", false),
	}
}

// idleOptions checks the options that are accepted without effect, and returns a warning for each that asks for something.
func idleOptions(r *option.Reader) []string {
	var out []string
	warn := func(name, why string) {
		if r.Has(name) {
			out = append(out, fmt.Sprintf("env: option %q has no effect: %s", name, why))
		}
	}
	warn("jars", "all plugins are built in")
	warn("custom_parameters", "no plugin reads them")
	if r.Choice("savemode.execute.location", "CLUSTER", "CLUSTER", "CLIENT") == "CLIENT" {
		warn("savemode.execute.location", "everything runs in the cluster")
	}
	if r.String("shade.identifier", "default") != "default" {
		warn("shade.identifier", "no plugin has a secret to decrypt")
	}
	return out
}

// text returns a value of env as the REST interface shows it.
func text(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	b, err := plugin.EncodeJSON(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}
