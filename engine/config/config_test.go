package config_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"gridnode/engine/catalog"
	"gridnode/engine/config"
	"gridnode/engine/plugin"

	"github.com/google/go-cmp/cmp"
)

const (
	fakeSource = `{"plugin_name":"FakeSource","schema":{"fields":{"id":"bigint","name":"string"}}}`
	console    = `{"plugin_name":"Console"}`
)

// with puts more options into a plugin's block.
func with(block, options string) string { return strings.TrimSuffix(block, "}") + "," + options + "}" }

// job is a config of lists of blocks.
func job(env, sources, transforms, sinks string) string {
	return `{"env":{` + env + `},"source":[` + sources + `],"transform":[` + transforms + `],"sink":[` + sinks + `]}`
}

func parse(t *testing.T, text string) *config.Job {
	t.Helper()
	j, err := config.Parse([]byte(text), catalog.New())
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// shape writes the vertices and edges of all pipelines, one line for each.
func shape(j *config.Job) string {
	var b strings.Builder
	for _, p := range j.Pipelines {
		for _, v := range p.Vertices {
			fmt.Fprintf(&b, "%d %s", v.ID, v.Name)
			if v.Parallelism > 0 {
				fmt.Fprintf(&b, " x%d", v.Parallelism)
			}
			fmt.Fprintf(&b, " %s (", strings.Join(v.Tables, "+"))
			for i, f := range v.Schema.Fields {
				if i > 0 {
					b.WriteByte(' ')
				}
				b.WriteString(f.Name)
			}
			b.WriteString(")\n")
		}
		for _, e := range p.Edges {
			fmt.Fprintf(&b, "%d>%d ", e.From, e.To)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func TestParse_Graphs(t *testing.T) {
	const (
		copyName = `{"plugin_name":"Copy","fields":{"n2":"name"}}`
		replace  = `{"plugin_name":"Replace","replace_field":"n2","pattern":"a","replacement":"b"}`
		filter   = `{"plugin_name":"filter","include_fields":["id"]}`
	)
	const chain = `1 pipeline-1 [Source[0]-FakeSource] x1 %s (id name)
2 pipeline-1 [Transform[0]-Copy] %s (id name n2)
3 pipeline-1 [Transform[1]-Replace] %s (id name n2)
4 pipeline-1 [Sink[0]-Console-MultiTableSink] %s (id name n2)
1>2 2>3 3>4 
`
	for _, tc := range []struct{ name, text, want string }{
		{"no env, no transform", `{"source":[` + fakeSource + `],"sink":[` + console + `]}`,
			"1 pipeline-1 [Source[0]-FakeSource] x1 default (id name)\n2 pipeline-1 [Sink[0]-Console-MultiTableSink] default (id name)\n1>2 \n"},
		{"chain without names", job("", fakeSource, copyName+","+replace, console), fmt.Sprintf(chain, "default", "default", "default", "default")},
		{"chain with a name at the source", job("", with(fakeSource, `"plugin_output":"a"`), copyName+","+replace, console), fmt.Sprintf(chain, "a", "a", "a", "a")},
		{"chain with all names, old and new", job("", with(fakeSource, `"result_table_name":"a"`), with(copyName, `"plugin_input":["a"],"plugin_output":["b"]`)+","+
			with(replace, `"source_table_name":"b","plugin_output":"c"`), with(console, `"plugin_input":"c"`)), fmt.Sprintf(chain, "a", "b", "c", "c")},
		{"transforms in another order than the rows take", job("", with(fakeSource, `"plugin_output":"a"`),
			with(filter, `"plugin_input":"b","plugin_output":"c"`)+","+with(copyName, `"plugin_input":"a","plugin_output":"b"`), with(console, `"plugin_input":"c"`)),
			"1 pipeline-1 [Source[0]-FakeSource] x1 a (id name)\n2 pipeline-1 [Transform[1]-Copy] b (id name n2)\n3 pipeline-1 [Transform[0]-Filter] c (id)\n" +
				"4 pipeline-1 [Sink[0]-Console-MultiTableSink] c (id)\n1>2 2>3 3>4 \n"},
		{"two sources, one sink, own parallelism", job(`"parallelism":5`, with(fakeSource, `"plugin_output":"l","parallelism":"2"`)+","+with(fakeSource, `"plugin_output":"r"`), "",
			with(console, `"plugin_input":["l","r"]`)),
			"1 pipeline-1 [Source[0]-FakeSource] x2 l (id name)\n2 pipeline-1 [Source[1]-FakeSource] x5 r (id name)\n3 pipeline-1 [Sink[0]-Console-MultiTableSink] l+r (id name)\n1>3 2>3 \n"},
		{"two pipelines", job("", with(fakeSource, `"plugin_output":"l"`)+","+with(fakeSource, `"plugin_output":"r"`), "", with(console, `"plugin_input":"r"`)+","+with(console, `"plugin_input":"l"`)),
			"1 pipeline-1 [Source[0]-FakeSource] x1 l (id name)\n2 pipeline-1 [Sink[1]-Console-MultiTableSink] l (id name)\n1>2 \n" +
				"3 pipeline-2 [Source[1]-FakeSource] x1 r (id name)\n4 pipeline-2 [Sink[0]-Console-MultiTableSink] r (id name)\n3>4 \n"},
		{"two sinks read the same rows", job("", fakeSource, "", console+","+with(console, `"parallelism":1`)),
			"1 pipeline-1 [Source[0]-FakeSource] x1 default (id name)\n2 pipeline-1 [Sink[0]-Console-MultiTableSink] default (id name)\n" +
				"3 pipeline-1 [Sink[1]-Console-MultiTableSink] default (id name)\n1>2 1>3 \n"},
		{"table of the schema", job("", `{"plugin_name":"fakesource","schema":{"table":"t","fields":{"id":"int"}}}`, "", console),
			"1 pipeline-1 [Source[0]-FakeSource] x1 t (id)\n2 pipeline-1 [Sink[0]-Console-MultiTableSink] t (id)\n1>2 \n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if d := cmp.Diff(tc.want, shape(parse(t, tc.text))); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestParse_Env(t *testing.T) {
	j := parse(t, job(`"job.name":"orders","job.mode":"streaming","parallelism":"2","job.retry.times":0,"job.retry.interval.seconds":7.0,
		"read_limit.rows_per_second":100,"read_limit.bytes_per_second":"2000","checkpoint.interval":"180000","checkpoint.timeout":10,
		"tag_filter":{"b":"1","a":"2"},"savemode.execute.location":"CLUSTER","shade.identifier":"base64","jars":null`, fakeSource, "", console))
	got := *j
	got.Pipelines = nil
	want := config.Job{
		Name: "orders", Mode: plugin.Streaming, Parallelism: 2, RetryTimes: 0, RetryInterval: 7 * time.Second, RowsPerSecond: 100, BytesPerSec: 2000,
		Tags:       map[string]string{"a": "2", "b": "1"},
		Checkpoint: config.Checkpoint{Interval: 3 * time.Minute, Timeout: 10 * time.Millisecond},
		Env: map[string]string{
			"job.name": "orders", "job.mode": "streaming", "parallelism": "2", "job.retry.times": "0", "job.retry.interval.seconds": "7.0",
			"read_limit.rows_per_second": "100", "read_limit.bytes_per_second": "2000", "checkpoint.interval": "180000", "checkpoint.timeout": "10",
			"tag_filter": `{"b":"1","a":"2"}`, "savemode.execute.location": "CLUSTER", "shade.identifier": "base64",
		},
		Warnings: []string{
			`env: option "shade.identifier" has no effect: no plugin has a secret to decrypt`,
		},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestParse_EnvDefaults(t *testing.T) {
	for _, env := range []string{`{`, `{"env":{},`, `{"env":null,`} {
		j := parse(t, env+`"source":[`+fakeSource+`],"sink":[`+console+`]}`)
		j.Pipelines = nil
		want := &config.Job{Name: "SeaTunnel_Job", Mode: plugin.Batch, Parallelism: 1, RetryTimes: 3, RetryInterval: 3 * time.Second, Env: map[string]string{}}
		if d := cmp.Diff(want, j); d != "" {
			t.Error(d)
		}
	}
}

// What is shown of a config is what it says.
func TestParse_EnvIsShownAsWritten(t *testing.T) {
	j := parse(t, job(`"job.name":"a<b>&c","tag_filter":{"<k>":"a&b"},"custom_parameters":{"x":["<",{"y":"&"}]}`, fakeSource, "", console))
	want := map[string]string{"job.name": "a<b>&c", "tag_filter": `{"<k>":"a&b"}`, "custom_parameters": `{"x":["<",{"y":"&"}]}`}
	if d := cmp.Diff(want, j.Env); d != "" {
		t.Error(d)
	}
	_, err := config.Parse([]byte(job(`"parallelism":"<2>"`, fakeSource, "", console)), catalog.New())
	if err == nil || !strings.Contains(err.Error(), `must be a whole number, not "<2>"`) {
		t.Error(err)
	}
}

func TestParse_TextWithVariablesStays(t *testing.T) {
	j := parse(t, job(`"job.name":"${n:x}"`, fakeSource, "", console))
	if j.Name != "${n:x}" {
		t.Error(j.Name)
	}
}

func TestParse_Errors(t *testing.T) {
	const files = `{"plugin_name":"LocalFile","path":"/x"}`
	named := func(s string) string { return with(fakeSource, `"plugin_output":"`+s+`"`) }
	reads := func(s string) string { return with(console, `"plugin_input":`+s) }
	filter := func(in, out string) string {
		return `{"plugin_name":"Filter","include_fields":["id"],"plugin_input":"` + in + `","plugin_output":"` + out + `"}`
	}
	for _, tc := range []struct{ name, text, want string }{
		{"no JSON", "env {\n}", "job config: line 1, column 1"},
		{"empty", "", "job config: line 1, column 1"},
		{"no object", "[]", "job config: it must be a JSON object"},
		{"text behind", job("", fakeSource, "", console) + "x", "there is text after the end"},
		{"key twice", `{"env":{},"env":{}}`, `the key "env" appears twice`},
		{"unknown section", `{"sorce":[]}`, `job config: option "sorce" is unknown; did you mean "source"?`},
		{"env is a list", `{"env":[]}`, `option "env" must be an object`},
		{"no source", `{"sink":[` + console + `]}`, `job config: option "source" is missing`},
		{"no sink", `{"source":[` + fakeSource + `]}`, `job config: option "sink" is missing`},
		{"empty sink", job("", fakeSource, "", ""), `option "sink" is an empty list`},
		{"source is an object", `{"source":` + fakeSource + `,"sink":[` + console + `]}`, `option "source" must be a list of plugins`},
		{"transform is an object", `{"source":[` + fakeSource + `],"transform":{},"sink":[` + console + `]}`, `option "transform" must be a list`},
		{"block is a text", job("", `"FakeSource"`, "", console), "source[0]: it must be an object"},
		{"plugin as a key", job("", fakeSource+`,{"Jdbc":{"url":"x"}}`, "", console), `source[1]: option "plugin_name" is missing (found key "Jdbc": write {"plugin_name":"Jdbc",...})`},
		{"no plugin_name", job("", `{"row.num":1}`, "", console), `source[0]: option "plugin_name" is missing`},
		{"blank plugin_name", job("", `{"plugin_name":" "}`, "", console), `source[0]: option "plugin_name" is blank`},
		{"unknown source", job("", `{"plugin_name":"Kafka"}`, "", console), `source[0]: option "plugin_name" is "Kafka", and there is no such source; known: FakeSource, LocalFile`},
		{"unknown sink", job("", fakeSource, "", `{"plugin_name":"FakeSource"}`), `sink[0]: option "plugin_name" is "FakeSource", and there is no such sink; known: Assert, Console, LocalFile`},
		{"unknown transform", job("", fakeSource, `{"plugin_name":"Sql"}`, console), `transform[0]: option "plugin_name" is "Sql", and there is no such transform; known: Copy, FieldMapper, Filter, Replace`},
		{"unknown option", job("", with(fakeSource, `"row.nmu":3`), "", console), `source[0] (FakeSource): option "row.nmu" is unknown; did you mean "row.num"?`},
		{"option of another plugin", job("", fakeSource, "", with(console, `"path":"/x"`)), `sink[0] (Console): option "path" is unknown`},
		{"unknown env", job(`"paralelism":2`, fakeSource, "", console), `env: option "paralelism" is unknown; did you mean "parallelism"?`},
		{"parallelism 0", job(`"parallelism":0`, fakeSource, "", console), `env: option "parallelism" is 0; it must be from 1 to 1024`},
		{"parallelism too large", job(`"parallelism":1025`, fakeSource, "", console), `env: option "parallelism" is 1025`},
		{"parallelism of a source", job("", with(fakeSource, `"parallelism":-1`), "", console), `source[0] (FakeSource): option "parallelism" is -1`},
		{"parallelism as a word", job(`"parallelism":"two"`, fakeSource, "", console), `env: option "parallelism" must be a whole number, not "two"`},
		{"blank name", job(`"job.name":" "`, fakeSource, "", console), `env: option "job.name" is blank`},
		{"mode", job(`"job.mode":"FAST"`, fakeSource, "", console), `env: option "job.mode" is "FAST"; supported: BATCH, STREAMING`},
		{"read limit", job(`"read_limit.rows_per_second":-1`, fakeSource, "", console), `env: option "read_limit.rows_per_second" is -1`},
		{"tag that no member can have", job(`"tag_filter":{"a":"`+strings.Repeat("x", 256)+`"}`, fakeSource, "", console), `env: option "tag_filter" has a tag with a name of 1 and a value of 256 bytes; no member has more than 255`},
		{"checkpoint interval", job(`"checkpoint.interval":9`, fakeSource, "", console), `env: option "checkpoint.interval" is 9; it must be from 10`},
		{"parallelism of a sink", job(`"parallelism":2`, fakeSource, "", with(console, `"parallelism":3`)), `sink[0] (Console): option "parallelism" is 3, but source[0] (FakeSource), whose rows it gets, has 2: rows do not move between task groups`},
		{"unknown input", job("", named("a"), "", reads(`"b"`)), `sink[0] (Console): option "plugin_input" names the output "b", which does not exist; there are: a`},
		{"inputs with a comma", job("", named("left")+","+named("right"), "", reads(`"left,right"`)), `names the output "left,right", which does not exist; several inputs are written as a list`},
		{"input twice", job("", named("a"), "", reads(`["a","a"]`)), `option "plugin_input" names "a" twice`},
		{"blank input", job("", named("a"), "", reads(`""`)), `option "plugin_input" is blank`},
		{"no input", job("", named("a"), "", reads(`[]`)), `option "plugin_input" is an empty list`},
		{"output twice", job("", named("a")+","+named("a"), "", reads(`"a"`)), `source[1] (FakeSource): option "plugin_output" is "a", which is the output of source[0] (FakeSource) already`},
		{"two outputs", job("", with(fakeSource, `"plugin_output":["a","b"]`), "", console), `option "plugin_output" has 2 names`},
		{"old and new name disagree", job("", with(named("a"), `"result_table_name":"b"`), "", console), `option "result_table_name" says something else than "plugin_output"`},
		{"source with an input", job("", with(fakeSource, `"plugin_input":"a"`), "", console), `source[0] (FakeSource): option "plugin_input" is given, but a source has no input`},
		{"sink with an output", job("", fakeSource, "", with(console, `"plugin_output":"a"`)), `sink[0] (Console): option "plugin_output" is given, but a sink has no output`},
		{"two sources without names", job("", fakeSource+","+fakeSource, "", console), `source[0] (FakeSource): option "plugin_output" is missing, and no other plugin reads these rows`},
		{"output that nobody reads", job("", named("a")+","+named("b"), "", reads(`"b"`)), `source[0] (FakeSource): option "plugin_output" is "a", which no other plugin reads`},
		{"transform that nobody reads", job("", named("a"), filter("a", "b"), reads(`"a"`)), `transform[0] (Filter): option "plugin_output" is "b", which no other plugin reads`},
		{"own output", job("", fakeSource, filter("a", "a"), console), `transform[0] (Filter): option "plugin_input" names "a", its own output`},
		{"cycle", job("", fakeSource, filter("b", "a")+","+filter("a", "b"), console+","+reads(`"a"`)), `option "plugin_output" is missing`},
		{"cycle beside a chain", job("", named("s"), filter("b", "a")+","+filter("a", "b"), reads(`["s","a"]`)), `option "plugin_input" makes a cycle: transform[0] (Filter), transform[1] (Filter) read each other's output`},
		{"different fields", job("", named("a")+`,{"plugin_name":"FakeSource","plugin_output":"b","schema":{"fields":{"x":"int"}}}`, "", reads(`["a","b"]`)),
			`sink[0] (Console): option "plugin_input" brings rows with different fields: source[0] (FakeSource) has id bigint, name string; source[1] (FakeSource) has x int`},
		{"field that does not reach a transform", job("", fakeSource, `{"plugin_name":"Filter","include_fields":["nme"]}`, console), `transform[0] (Filter): option "include_fields" names the field "nme"`},
		{"field that does not reach a sink", job("", fakeSource, "", with(files, `"sink_columns":["x"]`)), `sink[0] (LocalFile): option "sink_columns" names the field "x"`},
		{"assert on an unknown field", job("", fakeSource, "", `{"plugin_name":"Assert","rules":{"field_rules":[{"field_name":"x","field_value":[{"rule_type":"NULL"}]}]}}`),
			`sink[0] (Assert): option "rules.field_rules[0].field_name" names the field "x"`},
		{"too many plugins", job("", strings.Repeat(fakeSource+",", 256)+fakeSource, "", console), `option "source" has 257 plugins`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := config.Parse([]byte(tc.text), catalog.New())
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v\nwant one with %s", err, tc.want)
			}
		})
	}
}

type badTransform struct{}

func (badTransform) Bind(plugin.Schema) (plugin.Schema, plugin.Mapper, error) {
	return plugin.Schema{}, nil, errors.New("no")
}

func TestParse_ErrorsOfOthersGetAPlace(t *testing.T) {
	cat := catalog.New()
	cat.Transforms["Bad"] = func(plugin.Options) (plugin.Transform, error) { return badTransform{}, nil }
	_, err := config.Parse([]byte(job("", fakeSource, `{"plugin_name":"Bad"}`, console)), cat)
	if err == nil || err.Error() != "transform[0] (Bad): no" {
		t.Errorf("got %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(job(`"parallelism":2`, fakeSource, `{"plugin_name":"Filter","fields":["id"]}`, console))
	f.Add(job("", `{"plugin_name":"LocalFile","path":"/x","file_format_type":"csv","schema":{"columns":[{"name":"a","type":"decimal(3,1)"}]},"read_columns":["a"]}`,
		`{"plugin_name":"Replace","replace_field":"a","pattern":"(a)","replacement":"$1","is_regex":true}`, `{"plugin_name":"LocalFile","path":"/y","custom_filename":true,"file_name_expression":"${now}"}`))
	f.Add(job("", `{"plugin_name":"FakeSource","schema":{"fields":{"a":"int"}},"rows":[{"fields":[1]}],"int.template":[1]}`, `{"plugin_name":"FieldMapper","field_mapper":{"a":"b"}}`,
		`{"plugin_name":"Assert","rules":{"row_rules":[{"rule_type":"MIN_ROW","rule_value":1}],"field_rules":[{"field_name":"b","field_value":[{"rule_type":"MIN","rule_value":1,"equals_to":1}]}]}}`))
	f.Fuzz(func(t *testing.T, text string) {
		j, err := config.Parse([]byte(text), catalog.New())
		if err != nil {
			if err.Error() == "" {
				t.Error("an error without words")
			}
			return
		}
		for _, p := range j.Pipelines {
			for _, v := range p.Vertices {
				set := 0
				for _, is := range []bool{v.Source != nil, v.Mapper != nil, v.Sink != nil} {
					if is {
						set++
					}
				}
				if v.ID == 0 || v.Name == "" || len(v.Tables) == 0 || set != 1 {
					t.Errorf("%s gives the vertex %+v", text, v)
				}
			}
		}
	})
}
