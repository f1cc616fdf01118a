package localfile

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gridnode/engine/connector/internal/connectortest"
	"gridnode/engine/plugin"

	"github.com/google/go-cmp/cmp"
)

// write creates a file with its directories and returns its path.
func write(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func source(t *testing.T, path, options string) plugin.Source {
	t.Helper()
	s, err := NewSource(connectortest.Options(t, `{"path":`+connectortest.Text(t, path)+`,`+options+`}`))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const (
	csv3   = `"file_format_type":"csv","schema":{"fields":{"id":"int","name":"string","age":"int"}}`
	text3  = `"file_format_type":"text","schema":{"fields":{"id":"int","name":"string","age":"int"}}`
	json3  = `"file_format_type":"json","schema":{"fields":{"id":"int","name":"string","age":"int"}}`
	csvTwo = `"file_format_type":"csv","schema":{"fields":{"id":"int","name":"string"}}`
	csvOne = `"file_format_type":"csv","schema":{"fields":{"name":"string"}}`
)

func TestSource_Rows(t *testing.T) {
	ann := plugin.Row{int64(1), "Ann", int64(30)}
	bob := plugin.Row{int64(2), "Bob", int64(31)}
	for _, tc := range []struct {
		name, content, options string
		want                   []plugin.Row
	}{
		{"plain", "1,Ann,30\n2,Bob,31\n", csv3, []plugin.Row{ann, bob}},
		{"no line feed at the end", "1,Ann,30\n2,Bob,31", csv3, []plugin.Row{ann, bob}},
		{"CRLF", "1,Ann,30\r\n2,Bob,31\r\n", csv3, []plugin.Row{ann, bob}},
		{"CRLF, cut off", "1,Ann,30\r\n2,Bob,31\r", csv3, []plugin.Row{ann, bob}},
		{"empty file", "", csv3, nil},
		{"byte order mark alone", "\xef\xbb\xbf", csv3, nil},
		{"blank lines", "\n1,Ann,30\n\r\n2,Bob,31\n\n", csv3, []plugin.Row{ann, bob}},
		{"byte order mark and header", "\xef\xbb\xbfid,name,age\n1,Ann,30\n2,Bob,31", csv3 + `,"csv_use_header_line":true`, []plugin.Row{ann, bob}},
		{"byte order mark and skipped line", "\xef\xbb\xbfid,name,age\n1,Ann,30\n2,Bob,31", csv3 + `,"skip_header_row_number":"1"`, []plugin.Row{ann, bob}},
		{"more skipped than there", "1,Ann,30", csv3 + `,"skip_header_row_number":5`, nil},
		{"header in another order", "age,extra,name\n30,x,Ann\n", csv3 + `,"csv_use_header_line":true`, []plugin.Row{{nil, "Ann", int64(30)}}},
		{"header alone", "id,name,age\n", csv3 + `,"csv_use_header_line":true`, nil},
		{"missing columns", "1,Ann\n2\n", csv3, []plugin.Row{{int64(1), "Ann", nil}, {int64(2), nil, nil}}},
		{"null and empty", "1,,\n2,\"\",\n", csv3, []plugin.Row{{int64(1), nil, nil}, {int64(2), "", nil}}},
		{"null by name", "1,NULL,5\n2,\"NULL\",NULL\n", csv3 + `,"null_format":"NULL"`, []plugin.Row{{int64(1), nil, int64(5)}, {int64(2), "NULL", nil}}},
		{"quotes", "1,\"a,b\",\n2,\"say \"\"hi\"\"\",\n3,a\"b,\n", csv3, []plugin.Row{{int64(1), "a,b", nil}, {int64(2), `say "hi"`, nil}, {int64(3), `a"b`, nil}}},
		{"quoted line ends", "1,\"x\ny\r\nz\n\n\",5\r\n2,\"\n\",\n", csv3, []plugin.Row{{int64(1), "x\ny\r\nz\n\n", int64(5)}, {int64(2), "\n", nil}}},
		{"one column, null row", "a\n\n\"\"\n", csvOne, []plugin.Row{{"a"}, {nil}, {""}}},
		{"semicolon", "1;a,b;2\n", csv3 + `,"field_delimiter":";"`, []plugin.Row{{int64(1), "a,b", int64(2)}}},
		{"long delimiter", "1||a|b||\"2\"\n", csv3 + `,"delimiter":"||"`, []plugin.Row{{int64(1), "a|b", int64(2)}}},
		{"chosen columns", "1,Ann,30\n", csv3 + `,"read_columns":["age","id"]`, []plugin.Row{{int64(30), int64(1)}}},
		{"text, default delimiter", "1\x01Ann\x0130\n", text3, []plugin.Row{ann}},
		{"text, comma, CRLF", "1,Ann,30\r\n2,Bob,31\r\n", text3 + `,"field_delimiter":","`, []plugin.Row{ann, bob}},
		{"text, tab as escape", "1\tAnn\t30\n", text3 + `,"field_delimiter":"\\t"`, []plugin.Row{ann}},
		{"text, octal", "1\x01Ann\x0130\n", text3 + `,"field_delimiter":"\\001"`, []plugin.Row{ann}},
		{"text, null and empty", "1\x01\x01\n2\x01\\N\x01\\N\n3\n", text3, []plugin.Row{{int64(1), "", nil}, {int64(2), nil, nil}, {int64(3), nil, nil}}},
		{"text, quotes are text", "1|\"a\"|2\n", text3 + `,"field_delimiter":"|"`, []plugin.Row{{int64(1), `"a"`, int64(2)}}},
		{"text, row delimiter", "1|Ann|30##2|B#b|31##", text3 + `,"field_delimiter":"|","row_delimiter":"##"`, []plugin.Row{ann, {int64(2), "B#b", int64(31)}}},
		{"text without schema", "a\x01b\n\n\\N\r\n", `"file_format_type":"TEXT"`, []plugin.Row{{"a\x01b"}, {""}, {`\N`}}},
		{"JSON lines", "{\"id\":1,\"name\":\"Ann\",\"age\":30,\"x\":[]}\r\n\n {\"name\":\"B\",\"age\":null}", json3, []plugin.Row{ann, {nil, "B", nil}}},
		{"JSON list", "\xef\xbb\xbf\n [{\"id\":1,\"name\":\"Ann\",\"age\":30},\n{\"id\":2,\"name\":\"Bob\",\"age\":31}]\n", json3, []plugin.Row{ann, bob}},
		{"JSON, empty list", "[]", json3, nil},
		{"JSON, empty file", "\n", json3, nil},
		{"JSON, text for a number", `{"name":1984,"id":"7"}`, json3, []plugin.Row{{int64(7), "1984", nil}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := source(t, write(t, filepath.Join(t.TempDir(), "a.dat"), tc.content), tc.options)
			if d := cmp.Diff(tc.want, connectortest.MustReadAll(t, s, connectortest.Context(0, 1))); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestSource_BadData(t *testing.T) {
	long := strings.Repeat("x", maxRecord)
	for _, tc := range []struct {
		name, content, options string
		want                   []string
	}{
		{"surplus column", "1,a\n2,b\n3,c,z\n", csvTwo, []string{"line 3", "the row has 3 columns, and only 2 are known"}},
		{"surplus in text", "1|a|z\n", `"file_format_type":"text","delimiter":"|","schema":{"fields":{"id":"int","name":"string"}}`, []string{"line 1", "3 columns"}},
		{"number", "1,a\nx,b\n", csvTwo, []string{"line 2", `field "id"`, `"x"`, "int"}},
		{"quoted empty number", "\"\",b\n", csvTwo, []string{"line 1", `field "id"`, `""`}},
		{"line of a record behind quoted lines", "1,\"a\n\n\"\nx,b\n", csvTwo, []string{"line 4", `field "id"`}},
		{"open quote", "1,a\n2,\"b\n3,c\n", csvTwo, []string{"line 2: column 2: the quote is not closed"}},
		{"text behind quote", "1,\"a\"b\n", csvTwo, []string{"line 1: column 2: there is text behind the closing quote"}},
		{"not UTF-8", "1,a\n2,\xe9\n", csvTwo, []string{"line 2: the line is not UTF-8"}},
		{"long line", "1," + long + "\n", csvTwo, []string{"line 1: the line is longer than 16777216 bytes"}},
		{"long row", "1,\"" + strings.Repeat(long[:8191]+"\n", maxRecord/8192+1), csvTwo, []string{"line 1: the row is longer than 16777216 bytes"}},
		{"header without any column", "a,b\n1,2\n", csvTwo + `,"csv_use_header_line":true`, []string{"line 1: the header has none of the schema's columns; it has 2: \"a, b\""}},
		{"header twice", "id,id\n1,2\n", csvTwo + `,"csv_use_header_line":true`, []string{`the header has the column "id" twice`}},
		{"JSON syntax", "{\"id\":1}\n{\"id\":}\n", json3, []string{"line 2", "not a JSON object"}},
		{"JSON no object", "7\n", json3, []string{"line 1", "the value is not an object"}},
		{"JSON null", "null\n", json3, []string{"line 1", "null"}},
		{"JSON range", "{\"id\":9223372036854775808}\n", json3, []string{"line 1", `field "id"`, "9223372036854775808", "out of the range"}},
		{"JSON list value", "[{\"id\":1},{\"id\":true}]", json3, []string{"value 2", `field "id"`}},
		{"JSON list cut off", "[{\"id\":1},", json3, []string{"value 2", "the file ends within the list"}},
		{"JSON list cut off after a value", "[{\"id\":1}", json3, []string{"value 1", "the file ends within the list"}},
		{"JSON list with text behind", "[{\"id\":1}] x", json3, []string{"text behind the end"}},
		{"JSON list with long value", "[{\"id\":1},{\"name\":\"" + long + "\"}]", json3, []string{"value 2", "longer than"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := write(t, filepath.Join(t.TempDir(), "a.dat"), tc.content)
			_, err := connectortest.ReadAll(t, source(t, path, tc.options), connectortest.Context(0, 1))
			connectortest.WantPermanent(t, err, append(tc.want, "file "+path)...)
		})
	}
}

func TestSource_FilesOfADirectory(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"abcD1.csv", "xyz.csv", "sub/abcD2.csv", ".hidden.csv", "_tmp/abcD3.csv", "note.txt"} {
		write(t, filepath.Join(dir, name), filepath.Base(name)+"\n")
	}
	if err := os.Symlink(filepath.Join(dir, "xyz.csv"), filepath.Join(dir, "link.csv")); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ path, options, want string }{
		{dir, ``, "abcD1.csv xyz.csv note.txt abcD2.csv xyz.csv"},
		{dir, `,"file_filter_pattern":"abc.*\\.csv"`, "abcD1.csv abcD2.csv"},
		{dir, `,"file_filter_pattern":".*/sub/.*"`, "abcD2.csv"},
		{dir, `,"filename_extension":"txt"`, "note.txt"},
		{dir, `,"filename_extension":".none"`, ""},
		{dir + "/*.csv", ``, "abcD1.csv xyz.csv xyz.csv"},
		{dir + "/s*", ``, "abcD2.csv"},
		{dir + "/.hidden.csv", ``, ".hidden.csv"},
	} {
		t.Run(strings.TrimPrefix(tc.path, dir)+tc.options, func(t *testing.T) {
			s := source(t, tc.path, `"file_format_type":"text"`+tc.options)
			var got []string
			for _, r := range connectortest.MustReadAll(t, s, connectortest.Context(0, 1)) {
				got = append(got, r[0].(string))
			}
			for _, w := range strings.Fields(tc.want) {
				if !strings.Contains(strings.Join(got, " "), w) {
					t.Errorf("%s was not read", w)
				}
			}
			if len(got) != len(strings.Fields(tc.want)) {
				t.Errorf("read %v, want %s", got, tc.want)
			}
		})
	}
}

func TestSource_SubtasksShareTheFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "c"} {
		write(t, filepath.Join(dir, name), name+"1\n"+name+"2\n")
	}
	s := source(t, dir, `"file_format_type":"text"`)
	for _, parallelism := range []int{1, 2, 3, 10} {
		seen := map[any]int{}
		for i := range parallelism {
			for _, r := range connectortest.MustReadAll(t, s, connectortest.Context(i, parallelism)) {
				seen[r[0]]++
			}
		}
		if d := cmp.Diff(map[any]int{"a1": 1, "a2": 1, "b1": 1, "b2": 1, "c1": 1, "c2": 1}, seen); d != "" {
			t.Errorf("%d subtasks: %s", parallelism, d)
		}
	}
}

func TestSource_MissingPath(t *testing.T) {
	for _, path := range []string{filepath.Join(t.TempDir(), "none"), filepath.Join(t.TempDir(), "*.csv")} {
		_, err := source(t, path, csvTwo).Open(t.Context(), connectortest.Context(0, 1))
		connectortest.WantPermanent(t, err, "path", path)
	}
	dir := t.TempDir()
	path := write(t, filepath.Join(dir, "a.csv"), "1,a\n")
	r, err := source(t, dir, csvTwo).Open(t.Context(), connectortest.Context(0, 1))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	_, err = r.Read(t.Context(), 1)
	connectortest.WantPermanent(t, err, path)
}

func TestSource_EndsWithContext(t *testing.T) {
	s := source(t, write(t, filepath.Join(t.TempDir(), "a"), "1,a\n2,b\n"), csvTwo)
	r, err := s.Open(t.Context(), connectortest.Context(0, 1))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	if _, err := r.Read(ctx, 1); err != nil {
		t.Fatal(err)
	}
	stop := errors.New("stop")
	cancel(stop)
	if _, err := r.Read(ctx, 1); !errors.Is(err, stop) {
		t.Errorf("got %v, want the context's cause", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

func TestSource_RealData(t *testing.T) {
	zip := source(t, "testdata/zipcodes.csv", `"file_format_type":"csv","csv_use_header_line":true,
		"schema":{"fields":{"zip_code":"string","latitude":"double","longitude":"double","city":"string","state":"string","county":"string"}}`)
	rows := connectortest.MustReadAll(t, zip, connectortest.Context(0, 1))
	if len(rows) != 199 || rows[0][0] != "00501" || rows[0][1] != 40.922326 {
		t.Errorf("%d rows, first %v", len(rows), rows[0])
	}
	movies := source(t, "testdata/movies.json", `"file_format_type":"json",
		"schema":{"fields":{"Title":"string","US Gross":"bigint","IMDB Rating":"double","MPAA Rating":"string"}}`)
	rows = connectortest.MustReadAll(t, movies, connectortest.Context(0, 1))
	if d := cmp.Diff(plugin.Row{"The Land Girls", int64(146083), 6.1, "R"}, rows[0]); d != "" || len(rows) != 20 {
		t.Errorf("%d rows: %s", len(rows), d)
	}
}

func TestNewSource_Errors(t *testing.T) {
	const base = `"path":"/x","file_format_type":"csv","schema":{"fields":{"id":"int"}}`
	for _, tc := range []struct{ options, want string }{
		{`{}`, `option "path" is missing`},
		{`{"path":" ","file_format_type":"text"}`, `option "path" is blank`},
		{`{"path":"/x"}`, `option "file_format_type" is missing`},
		{`{"path":"/x","file_format_type":"parquet"}`, `option "file_format_type" is "parquet"; supported: text, csv, json`},
		{`{"path":"/x","file_format_type":"csv"}`, `option "schema" is missing`},
		{`{"path":"/x","file_format_type":"json"}`, `option "schema" is missing`},
		{`{"path":"/x","file_format_type":"text","delimiter":","}`, `option "delimiter" has no effect without a "schema"`},
		{`{` + base + `,"compress_codec":"lzo"}`, `option "compress_codec" is "lzo"; supported: none`},
		{`{` + base + `,"archive_compress_codec":"zip"}`, `option "archive_compress_codec" is "zip"`},
		{`{` + base + `,"encoding":"GBK"}`, `option "encoding" is "GBK"; supported: UTF-8`},
		{`{` + base + `,"sheet_name":"a"}`, `option "sheet_name" is not supported`},
		{`{` + base + `,"parse_partition_from_path":true}`, `option "parse_partition_from_path" is true`},
		{`{` + base + `,"enable_file_split":"true"}`, `option "enable_file_split" is true`},
		{`{` + base + `,"file_filter_pattern":"["}`, "option \"file_filter_pattern\" is \"[\": error parsing regexp: missing closing ]: `[`"},
		{`{` + base + `,"file_filter_pattern":"a)|(?:b"}`, `option "file_filter_pattern" is "a)|(?:b"`},
		{`{` + base + `,"file_filter_pattern":"a\\"}`, "trailing backslash"},
		{`{` + base + `,"read_columns":["idd"]}`, `option "read_columns" names the field "idd"; there are: id`},
		{`{` + base + `,"read_columns":"id"}`, `option "read_columns" must be a list`},
		{`{` + base + `,"field_delimiter":""}`, `option "field_delimiter" is empty`},
		{`{` + base + `,"field_delimiter":"\""}`, `option "field_delimiter" must not have a quote`},
		{`{` + base + `,"row_delimiter":"|"}`, `option "row_delimiter" must be`},
		{`{` + base + `,"null_format":"a,b"}`, `option "null_format" is "a,b"`},
		{`{` + base + `,"date_format":"QQ"}`, `option "date_format" is "QQ"`},
		{`{` + base + `,"skip_header_row_number":-1}`, `option "skip_header_row_number" is -1`},
		{`{` + base + `,"paht":1}`, `option "paht" is unknown; did you mean "path"?`},
		{`{"path":"/x","file_format_type":"json","schema":{"fields":{"id":"int"}},"null_format":"x"}`, `option "null_format" has no effect`},
		{`{"path":"/x","file_format_type":"json","schema":{"fields":{"id":"int"}},"csv_use_header_line":true}`, `option "csv_use_header_line" has no effect`},
	} {
		t.Run(tc.options, func(t *testing.T) {
			_, err := NewSource(connectortest.Options(t, tc.options))
			connectortest.WantOptionError(t, err, tc.want)
		})
	}
}

func TestUnescape(t *testing.T) {
	for in, want := range map[string]string{
		`\t`: "\t", `\001`: "\x01", `\u0001`: "\x01", `\x1f`: "\x1f", `\\`: `\`, `\`: `\`, `\|`: `\|`, `|`: "|", `\r\n`: "\r\n", `\u00`: `\u00`, `\u00e4`: "ä", `\999`: `\999`,
	} {
		if got := unescape(in); got != want {
			t.Errorf("%s: got %q, want %q", in, got, want)
		}
	}
}

func FuzzSource(f *testing.F) {
	for _, s := range []string{"1,a\n", "\"a\"\"\n\",\r\n", "\xef\xbb\xbfid,name\n1,2", "[{\"id\":1}]", "{\"id\":1}\n", "\"", "a\"\r"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, content string) {
		path := write(t, filepath.Join(t.TempDir(), "f"), content)
		for _, options := range []string{csvTwo, csvTwo + `,"csv_use_header_line":true`, json3, text3} {
			rows, err := connectortest.ReadAll(t, source(t, path, options), connectortest.Context(0, 1))
			if err != nil {
				if _, ok := errors.AsType[*plugin.PermanentError](err); !ok {
					t.Errorf("%q: %v is not permanent", content, err)
				}
				continue
			}
			for _, r := range rows {
				if len(r) < 2 {
					t.Errorf("%q: row %v", content, r)
				}
			}
		}
	})
}
