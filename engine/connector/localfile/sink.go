package localfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"

	"gridnode/engine/connector/internal/value"
	"gridnode/engine/plugin"
	"gridnode/engine/plugin/option"
)

// Sink is the sink LocalFile. Each task writes files of its own; a task without rows writes none.
//
// With transactions (the default) the files grow below tmp_path and appear in path, complete and durable, when the task is committed. In a job with
// checkpoints each checkpoint ends the files of the task, and they appear when it is complete. A commit
// can be repeated, but only where the files were written: on another member, unless both paths are shared, it reports
// [plugin.ErrPreparedLost]. Without transactions (is_enable_transaction=false) the files grow in path itself, and a task that runs again
// writes its rows again, into another file: at least once.
//
// Dates and times are written in the formats of the options, or as yyyy-MM-dd, HH:mm:ss and both.
//
// The names of the files hold the job, its incarnation, the task and its attempt, so no two tasks write the same file, and a file that is
// there already is never changed.
type Sink struct {
	where         string
	path          string
	tmp           string
	format        fileFormat
	columns       []string // nil: all
	names         naming
	transactional bool
	batch         int64 // rows per file
	emptyFile     bool
	header        bool
	quote         quoteMode

	link func(from, to string) error // os.Link, or what a test puts in its place
}

const defaultTmp = "/tmp/seatunnel"

// NewSink returns the sink LocalFile.
func NewSink(o plugin.Options) (plugin.Sink, error) {
	r := option.New(o)
	s := &Sink{where: o.Where, link: os.Link, format: readFormat(r, csvFormat)}
	s.path, s.tmp = r.Required("path"), r.String("tmp_path", defaultTmp)
	s.checkPaths(r)
	s.columns = r.Strings("sink_columns")
	s.names = readNaming(r, s.format)
	s.transactional = r.Bool("is_enable_transaction", true)
	s.batch = r.Int("batch_size", 1_000_000, 1, math.MaxInt64)
	if r.Bool("single_file_mode", false) {
		s.batch = math.MaxInt64
	}
	s.emptyFile = r.Bool("create_empty_file_when_no_data", false)
	s.header = r.Bool("enable_header_write", false)
	s.format.only(r, "enable_header_write", textFormat, csvFormat)
	s.quote = readQuoteMode(r)
	s.format.only(r, "csv_string_quote_mode", csvFormat)
	refuseSink(r)
	return s, r.Done()
}

// refuseSink refuses what other formats and other engines have.
func refuseSink(r *option.Reader) {
	for _, name := range []string{"have_partition", "is_partition_field_write_in_file"} {
		if r.Bool(name, false) {
			r.Fail(name, "is true, but partitions are not supported; set it to false")
		}
	}
	r.Refuse("partition_by", "partition_dir_expression", "tables_configs", "sheet_name", "max_rows_in_memory", "xml_root_tag", "xml_row_tag",
		"xml_use_attr_format", "parquet_avro_write_timestamp_as_int96", "parquet_avro_write_fixed_as_int96")
	r.Choice("schema_save_mode", "CREATE_SCHEMA_WHEN_NOT_EXIST", "CREATE_SCHEMA_WHEN_NOT_EXIST", "IGNORE")
	r.Choice("data_save_mode", "APPEND_DATA", "APPEND_DATA")
}

// checkPaths finds paths where files that are not committed could be taken for output.
func (s *Sink) checkPaths(r *option.Reader) {
	for _, p := range []string{"${table_name}", "${database_name}", "${schema_name}"} {
		if strings.Contains(s.path, p) {
			r.Fail("path", "has %s in it, which is not supported", p)
		}
	}
	path, tmp := filepath.Clean(s.path), filepath.Clean(s.tmp)
	if path == tmp {
		r.Fail("tmp_path", "and \"path\" are the same directory, %s", path)
	}
	if _, inside := relative(filepath.Join(tmp, tmpName), path); inside {
		r.Fail("path", "is %s, where files are kept that are not committed", path)
	}
	if rel, inside := relative(path, tmp); inside && !hidden(rel) {
		r.Fail("tmp_path", "is below \"path\": files that are not committed would look like output")
	}
}

// relative returns the path from base to a directory at or below it.
func relative(base, path string) (rel string, inside bool) {
	rel, err := filepath.Rel(base, path)
	return rel, err == nil && filepath.IsLocal(rel)
}

// Bind implements [plugin.Sink].
func (s *Sink) Bind(in plugin.Schema) error {
	if s.columns == nil {
		return nil
	}
	if _, err := value.Columns(in, s.columns); err != nil {
		return &plugin.OptionError{Where: s.where, Option: "sink_columns", Reason: err.Error()}
	}
	return nil
}

// Open implements [plugin.Sink]. It creates no file: the first row does.
func (s *Sink) Open(_ context.Context, tc plugin.TaskContext, schema plugin.Schema) (plugin.Writer, error) {
	info, err := os.Stat(s.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("option \"path\": %w", err)
	}
	if err == nil && !info.IsDir() {
		return nil, plugin.Permanentf("option \"path\": %s is not a directory", s.path)
	}
	out, err := s.prepare(tc, 0)
	if err != nil {
		return nil, err
	}
	enc, err := s.newEncoder(schema)
	if err != nil {
		return nil, err
	}
	return &writer{sink: s, tc: tc, out: out, encoder: enc}, nil
}

// Check implements [plugin.Sink]; there is nothing to check.
func (s *Sink) Check([][]byte) error { return nil }
