package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"gridnode/examples"
)

// demoInput returns the rows of the example, the heading first.
func demoInput() ([][]string, error) {
	return csv.NewReader(bytes.NewReader(examples.Airports)).ReadAll()
}

// writeInput writes the rows to as many files as there are to be, each with the heading, so that as many tasks can read them.
func writeInput(dir string, rows [][]string, files int) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	heading, rows := rows[0], rows[1:]
	each := (len(rows) + files - 1) / files
	i := 0
	for part := range slices.Chunk(rows, each) {
		i++
		var b bytes.Buffer
		if err := csv.NewWriter(&b).WriteAll(slices.Concat([][]string{heading}, part)); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("airports-%d.csv", i)), b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// demoConfig is the job of the example, with the demo's own paths and pace. What it does not change stays as it is written: the order of the
// fields matters.
func demoConfig(in, out, tmp string, tasks, rowsPerSecond int) ([]byte, error) {
	var config struct {
		Env    map[string]any               `json:"env"`
		Source []map[string]json.RawMessage `json:"source"`
		Sink   []map[string]any             `json:"sink"`
	}
	if err := json.Unmarshal(examples.AirportsJob, &config); err != nil {
		return nil, err
	}
	path, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	config.Env["parallelism"], config.Env["read_limit.rows_per_second"] = tasks, rowsPerSecond
	config.Source[0]["path"] = path
	config.Sink[0]["path"], config.Sink[0]["tmp_path"] = out, tmp
	return json.Marshal(config)
}

// readOutput returns the rows of all files of a directory, each of which must begin with the heading.
func readOutput(dir string, heading []string) (rows [][]string, files int, err error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.csv"))
	if err != nil {
		return nil, 0, err
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, 0, err
		}
		part, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
		if err != nil {
			return nil, 0, fmt.Errorf("%s: %w", filepath.Base(name), err)
		}
		if len(part) == 0 || !slices.Equal(part[0], heading) {
			return nil, 0, fmt.Errorf("%s does not begin with the heading", filepath.Base(name))
		}
		rows = append(rows, part[1:]...)
	}
	return rows, len(names), nil
}

// comparison counts rows: those that were wanted and those that came; of the wanted, those that came too rarely and too often; and those
// that nobody wanted.
type comparison struct{ want, got, missing, doubled, foreign int }

func (c comparison) exact() bool { return c.missing == 0 && c.doubled == 0 && c.foreign == 0 }

// compareRows compares without regard to order. A row that is wanted twice has to come twice.
func compareRows(want, got [][]string) comparison {
	c := comparison{want: len(want), got: len(got)}
	wanted, came := countRows(want), countRows(got)
	for row, n := range wanted {
		c.missing += max(0, n-came[row])
		c.doubled += max(0, came[row]-n)
	}
	for row, n := range came {
		if wanted[row] == 0 {
			c.foreign += n
		}
	}
	return c
}

func countRows(rows [][]string) map[string]int {
	count := make(map[string]int, len(rows))
	for _, row := range rows {
		count[fmt.Sprintf("%q", row)]++
	}
	return count
}
