package sim

import "time"

// Row is what came of a preset's traffic under one algorithm.
type Row struct {
	// Case says what a row beside the engine's is, such as "leases".
	Case        string  `json:"case,omitempty"`
	Algorithm   string  `json:"algorithm"`
	Offered     int     `json:"offered"`
	Admitted    int     `json:"admitted"`
	Worst2s     int     `json:"worst_2s"`     // most admitted in any two seconds, both ends included
	WorstWindow int     `json:"worst_window"` // most admitted in any span of a period, (t-W, t]
	Timeline    []Point `json:"timeline"`
	// Asked counts the decisions that a shared store was asked for, where that
	// is not every one.
	Asked int `json:"asked_store,omitempty"`
}

// Point is one step of a timeline: what came from TMS on, for a step.
type Point struct {
	TMS      int64 `json:"t_ms"`
	Offered  int   `json:"offered"`
	Admitted int   `json:"admitted"`
}

// tally makes a Row, told of arrivals in order of time.
type tally struct {
	row    Row
	step   time.Duration
	window recent
	two    recent
}

func newTally(p *Preset, period time.Duration, algorithm string) *tally {
	t := &tally{step: p.Step, window: recent{span: period}, two: recent{span: 2 * time.Second, closed: true}}
	t.row.Algorithm = algorithm
	t.row.Timeline = make([]Point, int((p.Length+p.Step-1)/p.Step))
	for i := range t.row.Timeline {
		t.row.Timeline[i].TMS = (time.Duration(i) * p.Step).Milliseconds()
	}
	return t
}

func (t *tally) add(at time.Duration, admitted bool) {
	p := &t.row.Timeline[min(int(at/t.step), len(t.row.Timeline)-1)]
	p.Offered++
	t.row.Offered++
	if admitted {
		p.Admitted++
		t.row.Admitted++
		t.row.WorstWindow = max(t.row.WorstWindow, t.window.add(at))
		t.row.Worst2s = max(t.row.Worst2s, t.two.add(at))
	}
}

// recent counts what was admitted within a span before now.
type recent struct {
	span   time.Duration
	closed bool // what is exactly a span old still counts
	at     []time.Duration
}

func (r *recent) add(at time.Duration) int {
	r.at = append(r.at, at)
	gone := 0
	for r.at[gone] < at-r.span || !r.closed && r.at[gone] == at-r.span {
		gone++
	}
	r.at = r.at[gone:]
	return len(r.at)
}
