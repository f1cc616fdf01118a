package engine

import (
	"cmp"
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

// atLeast returns figures of which none is below what they were when the output was cut that is visible already.
func atLeast(told, visible []tally) []tally {
	out := slices.Clone(told)
	for _, v := range visible {
		i := slices.IndexFunc(out, func(t tally) bool { return t.Table == v.Table })
		if i < 0 {
			out = append(out, v)
			continue
		}
		if out[i].SinkRows < v.SinkRows {
			out[i].SinkRows, out[i].SinkBytes = v.SinkRows, v.SinkBytes
		}
		if out[i].SourceRows < v.SourceRows {
			out[i].SourceRows, out[i].SourceBytes = v.SourceRows, v.SourceBytes
		}
	}
	return out
}

// sumTallies adds up the figures of many tasks as a job shows them: those of all that they did, and those of what is visible. seconds is how long the
// job ran.
func sumTallies(all, visible [][]tally, seconds float64) Metrics {
	m := Metrics{Tables: map[string]TableMetrics{}}
	each := func(lists [][]tally, add func(*Figures, tally)) {
		for _, task := range lists {
			for _, t := range task {
				tm := m.Tables[t.Table]
				add(&tm, t)
				m.Tables[t.Table] = tm
				add(&m.Figures, t)
			}
		}
	}
	each(all, func(f *Figures, t tally) {
		f.SourceRows += t.SourceRows
		f.SourceBytes += t.SourceBytes
		f.SinkRows += t.SinkRows
		f.SinkBytes += t.SinkBytes
	})
	each(visible, func(f *Figures, t tally) {
		f.CommittedRows += t.SinkRows
		f.CommittedBytes += t.SinkBytes
	})
	if seconds <= 0 {
		return m
	}
	m.per(seconds)
	for name, tm := range m.Tables {
		tm.per(seconds)
		m.Tables[name] = tm
	}
	return m
}

// per works the rates out.
func (f *Figures) per(seconds float64) {
	f.SourceQPS, f.SinkQPS, f.CommittedQPS = float64(f.SourceRows)/seconds, float64(f.SinkRows)/seconds, float64(f.CommittedRows)/seconds
	f.SourceBPS, f.SinkBPS, f.CommittedBPS = float64(f.SourceBytes)/seconds, float64(f.SinkBytes)/seconds, float64(f.CommittedBytes)/seconds
}
