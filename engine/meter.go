package engine

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"gridnode/engine/plugin"
)

// meter counts the rows of one task by table.
type meter struct {
	mu     sync.Mutex
	tables map[string]*tally
}

func newMeter() *meter { return &meter{tables: map[string]*tally{}} }

func (m *meter) table(name string) *tally {
	t := m.tables[name]
	if t == nil {
		t = &tally{Table: name}
		m.tables[name] = t
	}
	return t
}

// restore adds the figures that tasks had at a checkpoint.
func (m *meter) restore(all [][]tally) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, tallies := range all {
		for _, o := range tallies {
			t := m.table(o.Table)
			t.SourceRows += o.SourceRows
			t.SourceBytes += o.SourceBytes
			t.SinkRows += o.SinkRows
			t.SinkBytes += o.SinkBytes
		}
	}
}

func (m *meter) read(table string, rows, bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.table(table)
	t.SourceRows += rows
	t.SourceBytes += bytes
}

func (m *meter) wrote(table string, rows []plugin.Row) {
	bytes := sizeOfRows(rows)
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.table(table)
	t.SinkRows += int64(len(rows))
	t.SinkBytes += bytes
}

// tallies returns the figures, by table name.
func (m *meter) tallies() []tally {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]tally, 0, len(m.tables))
	for _, t := range m.tables {
		out = append(out, *t)
	}
	slices.SortFunc(out, func(a, b tally) int { return cmp.Compare(a.Table, b.Table) })
	return out
}

// sizeOfRows estimates the bytes of rows: texts by their length, numbers as eight bytes.
func sizeOfRows(rows []plugin.Row) int64 {
	n := 0
	for _, r := range rows {
		for _, v := range r {
			n += sizeOfValue(v)
		}
	}
	return int64(n)
}

func sizeOfValue(v any) int {
	switch v := v.(type) {
	case nil:
		return 0
	case bool:
		return 1
	case string:
		return len(v)
	case []byte:
		return len(v)
	}
	return 8
}

// sumTallies adds up the figures of many tasks as a job shows them. seconds is how long the job ran.
func sumTallies(all [][]tally, seconds float64) Metrics {
	m := Metrics{Tables: map[string]TableMetrics{}}
	for _, task := range all {
		for _, t := range task {
			tm := m.Tables[t.Table]
			tm.SourceRows += t.SourceRows
			tm.SourceBytes += t.SourceBytes
			tm.SinkRows += t.SinkRows
			tm.SinkBytes += t.SinkBytes
			m.Tables[t.Table] = tm
			m.SourceRows += t.SourceRows
			m.SourceBytes += t.SourceBytes
			m.SinkRows += t.SinkRows
			m.SinkBytes += t.SinkBytes
		}
	}
	if seconds <= 0 {
		return m
	}
	m.SourceQPS, m.SinkQPS = float64(m.SourceRows)/seconds, float64(m.SinkRows)/seconds
	m.SourceBPS, m.SinkBPS = float64(m.SourceBytes)/seconds, float64(m.SinkBytes)/seconds
	for name := range maps.Keys(m.Tables) {
		tm := m.Tables[name]
		tm.SourceQPS, tm.SinkQPS = float64(tm.SourceRows)/seconds, float64(tm.SinkRows)/seconds
		tm.SourceBPS, tm.SinkBPS = float64(tm.SourceBytes)/seconds, float64(tm.SinkBytes)/seconds
		m.Tables[name] = tm
	}
	return m
}
