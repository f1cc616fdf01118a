package localfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gridnode/engine/connector/internal/connectortest"
	"gridnode/engine/plugin"

	"github.com/google/go-cmp/cmp"
)

// place is a target and a directory for files that are not committed.
type place struct{ path, tmp string }

func newPlace(t *testing.T) place {
	dir := t.TempDir()
	return place{filepath.Join(dir, "out", "x"), filepath.Join(dir, "tmp")}
}

// sink builds a sink as a member that never saw the job does.
func (p place) sink(t *testing.T, options string) *Sink {
	t.Helper()
	s, err := NewSink(connectortest.Options(t, `{"path":`+connectortest.Text(t, p.path)+`,"tmp_path":`+connectortest.Text(t, p.tmp)+options+`}`))
	if err != nil {
		t.Fatal(err)
	}
	return s.(*Sink)
}

// files returns the content of all files below a directory by their path in it.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		out[rel] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// all returns the contents of the target's files, in the order of their names.
func (p place) all(t *testing.T) string {
	t.Helper()
	found := files(t, p.path)
	var names []string
	for n := range found {
		names = append(names, n)
	}
	slices.Sort(names)
	var b strings.Builder
	for _, n := range names {
		b.WriteString(found[n])
	}
	return b.String()
}

var twoFields = plugin.Schema{Fields: []plugin.Field{{Name: "id", Type: plugin.BigInt, Decl: "bigint"}, {Name: "s", Type: plugin.String, Decl: "string"}}}

// prepareRows writes rows in batches of two and prepares them.
func prepareRows(t *testing.T, s *Sink, tc plugin.TaskContext, schema plugin.Schema, rows ...plugin.Row) ([]byte, error) {
	t.Helper()
	if err := s.Bind(schema); err != nil {
		return nil, err
	}
	w, err := s.Open(t.Context(), tc, schema)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}()
	for batch := range slices.Chunk(rows, 2) {
		if err := w.Write(t.Context(), batch); err != nil {
			return nil, err
		}
	}
	return w.Prepare(t.Context())
}

func mustPrepare(t *testing.T, s *Sink, tc plugin.TaskContext, schema plugin.Schema, rows ...plugin.Row) []byte {
	t.Helper()
	b, err := prepareRows(t, s, tc, schema, rows...)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func mustCommit(t *testing.T, s *Sink, prepared []byte) {
	t.Helper()
	if err := s.Commit(t.Context(), prepared); err != nil {
		t.Fatal(err)
	}
}

func TestSink_Bytes(t *testing.T) {
	schema := plugin.Schema{Fields: []plugin.Field{
		{Name: "id", Type: plugin.BigInt, Decl: "bigint"}, {Name: "naïve,col", Type: plugin.String, Decl: "string"}, {Name: "d", Type: plugin.Decimal, Decl: "decimal(10,2)"},
	}}
	rows := []plugin.Row{{int64(1), "", "70.00"}, {int64(9007199254740993), nil, nil}, {nil, "a,\"b\"\n", "-0.50"}, {int64(4), " x", "0.00"}}
	for _, tc := range []struct{ name, options, want string }{
		{"csv", `,"enable_header_write":true`, "id,\"naïve,col\",d\n1,\"\",70.00\n9007199254740993,,\n,\"a,\"\"b\"\"\n\",-0.50\n4,\" x\",0.00\n"},
		{"csv, all quoted", `,"csv_string_quote_mode":"all","sink_columns":["naïve,col","id"]`, "\"\",1\n,9007199254740993\n\"a,\"\"b\"\"\n\",\n\" x\",4\n"},
		{"csv, null by name", `,"null_format":"NULL","row_delimiter":"\\r\\n"`, "1,\"\",70.00\r\n9007199254740993,NULL,NULL\r\nNULL,\"a,\"\"b\"\"\n\",-0.50\r\n4,\" x\",0.00\r\n"},
		{"csv, semicolon", `,"field_delimiter":";","enable_header_write":"true"`, "id;naïve,col;d\n1;\"\";70.00\n9007199254740993;;\n;\"a,\"\"b\"\"\n\";-0.50\n4;\" x\";0.00\n"},
		{"text", `,"file_format_type":"text","row_delimiter":"##"`, "1\x01\x0170.00##9007199254740993\x01\\N\x01\\N##\\N\x01a,\"b\"\n\x01-0.50##4\x01 x\x010.00##"},
		{"json", `,"file_format_type":"json"`, `{"id":1,"naïve,col":"","d":70.00}` + "\n" + `{"id":9007199254740993,"naïve,col":null,"d":null}` + "\n" +
			`{"id":null,"naïve,col":"a,\"b\"\n","d":-0.50}` + "\n" + `{"id":4,"naïve,col":" x","d":0.00}` + "\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newPlace(t)
			s := p.sink(t, tc.options)
			mustCommit(t, s, mustPrepare(t, s, connectortest.Context(0, 1), schema, rows...))
			if d := cmp.Diff(tc.want, p.all(t)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestSink_TextsThatDoNotFit(t *testing.T) {
	for _, tc := range []struct{ name, options, text, want string }{
		{"field delimiter", `,"file_format_type":"text","field_delimiter":"|"`, "a|b", "it has the field delimiter in it"},
		{"half of a delimiter", `,"file_format_type":"text","field_delimiter":"||"`, "a|", "it has the field delimiter in it"},
		{"row delimiter", `,"file_format_type":"text"`, "a\nb", "it has the row delimiter in it"},
		{"null", `,"file_format_type":"text"`, `\N`, "it stands for null"},
		{"carriage return", `,"file_format_type":"text"`, "a\r", "carriage return"},
		{"byte order mark", `,"file_format_type":"text"`, "\ufeffa", "byte order mark"},
		{"quotes are off", `,"csv_string_quote_mode":"NONE"`, "a,b", "cannot be written without quotes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newPlace(t)
			_, err := prepareRows(t, p.sink(t, tc.options), connectortest.Context(0, 1), twoFields, plugin.Row{int64(1), "a"}, plugin.Row{int64(2), tc.text})
			connectortest.WantPermanent(t, err, "row 2", tc.want)
			if left := files(t, p.tmp); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// A date of one form is written in another: the form is the file's, not the row's.
func TestFormats_AreTheFilesOwn(t *testing.T) {
	const fields = `"schema":{"fields":{"d":"date","t":"time","at":"timestamp"}}`
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.csv"), "15/07/2024,9:08,7/5/2024 13:14\n,,\n")
	src := source(t, dir, `"file_format_type":"csv",`+fields+`,"date_format":"dd/MM/yyyy","time_format":"H:mm","datetime_format":"M/d/yyyy H:mm"`)
	rows := connectortest.MustReadAll(t, src, connectortest.Context(0, 1))
	for _, tc := range []struct{ options, want string }{
		{`,"file_format_type":"json"`, `{"d":"2024-07-15","t":"09:08:00","at":"2024-07-05 13:14:00"}` + "\n" + `{"d":null,"t":null,"at":null}` + "\n"},
		{`,"date_format":"dd/MM/yyyy","time_format":"H:mm","datetime_format":"M/d/yyyy H:mm"`, "15/07/2024,9:08,7/5/2024 13:14\n,,\n"},
		{`,"date_format":"yyyyMMdd","datetime_format":"yyyy-MM-dd'T'HH:mm:ss.SSS"`, "20240715,09:08:00,2024-07-05T13:14:00.000\n,,\n"},
	} {
		p := newPlace(t)
		s := p.sink(t, tc.options)
		mustCommit(t, s, mustPrepare(t, s, connectortest.Context(0, 1), src.Schema(), rows...))
		if got := p.all(t); got != tc.want {
			t.Errorf("%s: got\n%swant\n%s", tc.options, got, tc.want)
		}
	}
}

func TestRoundTrips(t *testing.T) {
	const schema = `"schema":{"fields":{"id":"int","s":"string","t":"string"}}`
	fields := plugin.Schema{Fields: []plugin.Field{{Name: "id", Type: plugin.Int}, {Name: "s", Type: plugin.String}, {Name: "t", Type: plugin.String}}}
	plain := []plugin.Row{{int64(1), "a.b", ""}, {int64(2), "c*d", nil}, {nil, "", ""}, {nil, nil, nil}, {int64(3), "\"q\"", "NULL"}}
	for _, tc := range []struct {
		options string
		more    []plugin.Row
	}{
		{`"file_format_type":"csv"`, []plugin.Row{{int64(4), "l1\nl2\r\n", "a,b"}, {int64(5), `\N`, "\ufeff"}, {int64(6), " ", "\r"}}},
		{`"file_format_type":"csv","null_format":"NULL","field_delimiter":"||"`, []plugin.Row{{int64(4), "|", "||"}}},
		{`"file_format_type":"csv","csv_string_quote_mode":"ALL"`, nil},
		{`"file_format_type":"json"`, []plugin.Row{{int64(4), "l1\nl2\r\n", "\x00\u2028<"}}},
		{`"file_format_type":"text"`, nil},
		{`"file_format_type":"text","field_delimiter":"|","row_delimiter":"~\n"`, []plugin.Row{{int64(4), "a\nb~", "\r"}}},
		{`"file_format_type":"text","field_delimiter":"^"`, nil},
		{`"file_format_type":"text","field_delimiter":"||"`, []plugin.Row{{int64(4), "|b", "a|b"}}},
		{`"file_format_type":"text","field_delimiter":"\\t"`, nil},
	} {
		t.Run(tc.options, func(t *testing.T) {
			p := newPlace(t)
			s := p.sink(t, ","+tc.options)
			rows := append(slices.Clone(plain), tc.more...)
			mustCommit(t, s, mustPrepare(t, s, connectortest.Context(0, 1), fields, rows...))
			options := strings.ReplaceAll(tc.options, `,"csv_string_quote_mode":"ALL"`, "")
			got := connectortest.MustReadAll(t, source(t, p.path, options+","+schema), connectortest.Context(0, 1))
			if d := cmp.Diff(rows, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestRoundTrip_RealDataKeepsItsBytes(t *testing.T) {
	for file, fields := range map[string]string{
		"airports.csv": `{"iata":"string","name":"string","city":"string","state":"string","country":"string","latitude":"decimal(20,10)","longitude":"decimal(20,10)"}`,
		"zipcodes.csv": `{"zip_code":"string","latitude":"double","longitude":"double","city":"string","state":"string","county":"string"}`,
	} {
		t.Run(file, func(t *testing.T) {
			src := source(t, filepath.Join("testdata", file), `"file_format_type":"csv","csv_use_header_line":true,"schema":{"fields":`+fields+`}`)
			p := newPlace(t)
			s := p.sink(t, `,"enable_header_write":true`)
			rows := connectortest.MustReadAll(t, src, connectortest.Context(0, 1))
			mustCommit(t, s, mustPrepare(t, s, connectortest.Context(0, 1), src.Schema(), rows...))
			want, err := os.ReadFile(filepath.Join("testdata", file))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(strings.ReplaceAll(string(want), "\r\n", "\n"), p.all(t)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestSink_Names(t *testing.T) {
	row := plugin.Row{int64(1), "a"}
	for _, tc := range []struct{ name, options, want string }{
		{"default", ``, "T_1_inc-1_2_0_1_0.csv T_1_inc-1_2_0_1_1.csv T_1_inc-1_2_1_1_0.csv T_1_inc-1_2_1_1_1.csv"},
		{"extension", `,"file_format_type":"text","filename_extension":"dat"`, "T_1_inc-1_2_0_1_0.dat T_1_inc-1_2_0_1_1.dat T_1_inc-1_2_1_1_0.dat T_1_inc-1_2_1_1_1.dat"},
		{"custom without the transaction", `,"custom_filename":true,"file_name_expression":"all"`, "all_T_1_inc-1_2_0_1_0.csv all_T_1_inc-1_2_0_1_1.csv all_T_1_inc-1_2_1_1_0.csv all_T_1_inc-1_2_1_1_1.csv"},
		{"one file", `,"single_file_mode":true`, "T_1_inc-1_2_0_1_0.csv T_1_inc-1_2_1_1_0.csv"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newPlace(t)
			s := p.sink(t, `,"batch_size":2`+tc.options)
			for i := range 2 {
				mustCommit(t, s, mustPrepare(t, s, connectortest.Context(i, 2), twoFields, row, row, row))
			}
			var got []string
			for n := range files(t, p.path) {
				got = append(got, n)
			}
			slices.Sort(got)
			if d := cmp.Diff(tc.want, strings.Join(got, " ")); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestSink_NameVariables(t *testing.T) {
	p := newPlace(t)
	s := p.sink(t, `,"custom_filename":true,"file_name_expression":"a-${now}-${uuid}-${transactionId}","filename_time_format":"yyyy"`)
	mustCommit(t, s, mustPrepare(t, s, connectortest.Context(0, 1), twoFields, plugin.Row{int64(1), "a"}))
	for n := range files(t, p.path) {
		if strings.Contains(n, "$") || len(n) != len("a-2026-")+36+len("-T_1_inc-1_2_0_1_0.csv") {
			t.Error(n)
		}
	}
}

func TestSink_NoRows(t *testing.T) {
	for options, want := range map[string]map[string]string{
		``: {}, `,"enable_header_write":true`: {}, `,"is_enable_transaction":false`: {},
		`,"create_empty_file_when_no_data":true`:                               {"T_1_inc-1_2_0_1_0.csv": ""},
		`,"create_empty_file_when_no_data":true,"enable_header_write":true`:    {"T_1_inc-1_2_0_1_0.csv": "id,s\n"},
		`,"create_empty_file_when_no_data":true,"is_enable_transaction":false`: {"T_1_inc-1_2_0_1_0.csv": ""},
	} {
		p := newPlace(t)
		s := p.sink(t, options)
		mustCommit(t, s, mustPrepare(t, s, connectortest.Context(0, 1), twoFields))
		if d := cmp.Diff(want, files(t, p.path)); d != "" {
			t.Errorf("%s: %s", options, d)
		}
		if err := s.Cleanup(t.Context(), "1", "inc-1"); err != nil {
			t.Error(err)
		}
	}
}

func TestNewSink_Errors(t *testing.T) {
	for _, tc := range []struct{ options, want string }{
		{`{}`, `option "path" is missing`},
		{`{"path":""}`, `option "path" is blank`},
		{`{"path":"/tmp/seatunnel"}`, `option "tmp_path" and "path" are the same directory`},
		{`{"path":"/x/","tmp_path":"/x/."}`, `option "tmp_path" and "path" are the same directory`},
		{`{"path":"/x/gridnode/y","tmp_path":"/x"}`, `option "path" is /x/gridnode/y, where files are kept that are not committed`},
		{`{"path":"/x","tmp_path":"/x/tmp"}`, `option "tmp_path" is below "path"`},
		{`{"path":"/x/${table_name}"}`, `option "path" has ${table_name} in it`},
		{`{"path":"/x","file_format_type":"orc"}`, `option "file_format_type" is "orc"`},
		{`{"path":"/x","compress_codec":"lzo"}`, `option "compress_codec" is "lzo"`},
		{`{"path":"/x","have_partition":true}`, `option "have_partition" is true`},
		{`{"path":"/x","partition_by":["a"]}`, `option "partition_by" is not supported`},
		{`{"path":"/x","data_save_mode":"DROP_DATA"}`, `option "data_save_mode" is "DROP_DATA"; supported: APPEND_DATA`},
		{`{"path":"/x","schema_save_mode":"RECREATE_SCHEMA"}`, `option "schema_save_mode" is "RECREATE_SCHEMA"`},
		{`{"path":"/x","batch_size":0}`, `option "batch_size" is 0; it must be at least 1`},
		{`{"path":"/x","csv_string_quote_mode":"SOME"}`, `option "csv_string_quote_mode" is "SOME"`},
		{`{"path":"/x","file_format_type":"json","csv_string_quote_mode":"ALL"}`, `option "csv_string_quote_mode" has no effect`},
		{`{"path":"/x","file_format_type":"json","enable_header_write":true}`, `option "enable_header_write" has no effect`},
		{`{"path":"/x","file_name_expression":"a"}`, `option "file_name_expression" has no effect unless "custom_filename" is true`},
		{`{"path":"/x","custom_filename":true,"file_name_expression":"../a"}`, `option "file_name_expression" is "../a"`},
		{`{"path":"/x","custom_filename":true,"file_name_expression":"_a"}`, `option "file_name_expression" is "_a"`},
		{`{"path":"/x","custom_filename":true,"file_name_expression":"${table}"}`, `option "file_name_expression" has the variable ${table}`},
		{`{"path":"/x","filename_time_format":"yyyy/MM"}`, `option "filename_time_format" is "yyyy/MM"`},
		{`{"path":"/x","filename_extension":"/x"}`, `option "filename_extension" is "./x"`},
		{`{"path":"/x","sink_colums":["a"]}`, `option "sink_colums" is unknown; did you mean "sink_columns"?`},
	} {
		t.Run(tc.options, func(t *testing.T) {
			_, err := NewSink(connectortest.Options(t, tc.options))
			connectortest.WantOptionError(t, err, tc.want)
		})
	}
}

func TestSink_BindNamesColumns(t *testing.T) {
	connectortest.WantOptionError(t, newPlace(t).sink(t, `,"sink_columns":["id","x"]`).Bind(twoFields), `option "sink_columns" names the field "x"; there are: id, s`)
}
