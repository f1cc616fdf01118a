package localfile

import (
	"context"
	"math"
	"regexp"

	"gridnode/engine/connector/internal/value"
	"gridnode/engine/plugin"
	"gridnode/engine/plugin/option"
)

// Source is the source LocalFile. It reads a file, all files below a directory, or what a glob pattern finds; names that begin with a dot or
// an underscore are left out of directories. The files, sorted by their path, go to the subtasks in turn, each file to one subtask, so there
// is no use in more subtasks than files. No file may come or go while the job runs, and all members that run the job must see the same files.
//
// CSV is RFC 4180: an empty field is null, a quoted empty field an empty text. In text files \N is null unless null_format says otherwise;
// an empty field is an empty text, or null where the type is not string. In both, columns that a row lacks at its end are null, and columns
// that the schema does not have are an error. JSON files hold one object per line, or one list of objects; keys that the schema does not have
// are left out, and fields that an object does not have are null.
type Source struct {
	path       string
	format     fileFormat
	schema     plugin.Schema // of the rows that it returns
	columns    []column
	width      int // columns in a file
	skip       int // rows at the start of each file
	header     bool
	extension  string
	filter     *regexp.Regexp // nil: all files
	wholeLines bool           // each line is one text, whatever is in it
}

// column is one field of the rows that are returned.
type column struct {
	name      string
	index     int // in the schema of the files
	convert   *value.Converter
	emptyText bool // an empty text is a value of this field, and not null
}

// NewSource returns the source LocalFile.
func NewSource(o plugin.Options) (plugin.Source, error) {
	r := option.New(o)
	s := &Source{path: r.Required("path"), format: readFormat(r, "")}
	r.Refuse("sheet_name", "excel_engine", "xml_row_tag", "xml_use_attr_format", "tables_configs", "file_split_size")
	r.Choice("archive_compress_codec", "none", "none")
	if r.Bool("parse_partition_from_path", false) {
		r.Fail("parse_partition_from_path", "is true, which is not supported; set it to false")
	}
	if r.Bool("enable_file_split", false) {
		r.Fail("enable_file_split", "is true, which is not supported; set it to false")
	}
	s.skip = int(r.Int("skip_header_row_number", 0, 0, math.MaxInt32))
	s.format.only(r, "skip_header_row_number", textFormat, csvFormat)
	s.header = r.Bool("csv_use_header_line", false)
	s.format.only(r, "csv_use_header_line", csvFormat)
	s.extension = dotted(r.String("filename_extension", ""))
	s.readFilter(r)
	s.readSchema(r)
	return s, r.Done()
}

func (s *Source) readFilter(r *option.Reader) {
	pattern := r.String("file_filter_pattern", "")
	if pattern == "" {
		return
	}
	_, err := regexp.Compile(pattern) // by itself first: brackets around it could complete it
	if err == nil {
		s.filter, err = regexp.Compile("^(?:" + pattern + ")$")
	}
	if err != nil {
		r.Fail("file_filter_pattern", "is %q: %s", pattern, err)
	}
}

func (s *Source) readSchema(r *option.Reader) {
	files, found := value.ReadSchema(r)
	if !found {
		if s.format.kind != textFormat {
			r.Need("schema")
		}
		s.wholeLines = true
		files.Fields = []plugin.Field{{Name: "content", Type: plugin.String, Decl: "string"}}
		if r.Has("field_delimiter") {
			r.Fail("field_delimiter", "has no effect without a \"schema\": each line is one text")
		}
		if !r.Has("null_format") {
			s.format.null = nil
		}
	}
	s.width = len(files.Fields)
	s.schema = files
	keep := make([]int, s.width)
	for i := range keep {
		keep[i] = i
	}
	if names := r.Strings("read_columns"); names != nil {
		chosen, err := value.Columns(files, names)
		if err != nil {
			r.Fail("read_columns", "%s", err)
		}
		keep = chosen
	}
	s.schema.Fields = nil
	for _, i := range keep {
		f := files.Fields[i]
		s.schema.Fields = append(s.schema.Fields, f)
		s.columns = append(s.columns, column{
			name: f.Name, index: i, convert: value.NewConverter(f, s.format.formats),
			emptyText: s.format.kind == textFormat && (f.Type == plugin.String || f.Type == plugin.Bytes),
		})
	}
}

// Schema implements [plugin.Source].
func (s *Source) Schema() plugin.Schema { return s.schema }

// Open implements [plugin.Source]. A path that does not exist is a permanent error.
func (s *Source) Open(ctx context.Context, tc plugin.TaskContext) (plugin.Reader, error) {
	files, err := s.files(ctx)
	if err != nil {
		return nil, err
	}
	var share []part
	for i := tc.Subtask; i < len(files); i += tc.Parallelism {
		share = append(share, part{File: files[i]})
	}
	return &reader{source: s, files: share}, nil
}
