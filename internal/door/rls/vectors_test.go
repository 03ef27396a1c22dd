package rls

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/weirhq/weir/internal/door/rls/rlsconfig"
)

// vector is a conversation with envoyproxy/ratelimit on a fixed clock, recorded.
type vector struct {
	ID              string
	Configs, Inline []string
	AllOrNothing    bool `json:"stop_increment_when_over"`
	Steps           []struct {
		Request struct {
			At          int64 `json:"t_s"`
			Domain      string
			HitsAddend  uint32 `json:"hits_addend"`
			Descriptors []struct {
				Entries [][2]string
				Limit   *struct {
					Requests uint32 `json:"requests_per_unit"`
					Unit     int32
				}
			}
		}
		Response struct {
			Overall  string `json:"overall_code"`
			Statuses []struct {
				Code      string
				Reset     int64  `json:"duration_until_reset_s"`
				Remaining uint32 `json:"limit_remaining"`
				Requests  uint32 `json:"requests_per_unit"`
				Unit      string
				Name      string
			}
		}
	}
}

// apart is the one step in which the answers differ, and are meant to: that
// server counts a: b_c and a_b: c as one.
const apart = "rls-key-collision"

func TestVectors(t *testing.T) {
	file, err := os.Open("testdata/vectors.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	steps := 0
	for lines.Scan() {
		var v vector
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		steps += len(v.Steps)
		t.Run(v.ID, func(t *testing.T) { v.run(t) })
	}
	if steps < 150 {
		t.Errorf("only %d steps were run", steps)
	}
}

func (v *vector) run(t *testing.T) {
	var files []string
	for _, name := range v.Configs {
		text, err := os.ReadFile(filepath.Join("testdata", "vectors", name))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, name, string(text))
	}
	for i, text := range v.Inline {
		files = append(files, fmt.Sprintf("inline%d.yaml", i), text)
	}
	h := newHarness(t, Options{Load: rlsconfig.Options{AllOrNothing: v.AllOrNothing}}, files...)
	for i, step := range v.Steps {
		h.set(time.Unix(step.Request.At, 0))
		q := &rlsv3.RateLimitRequest{Domain: step.Request.Domain, HitsAddend: step.Request.HitsAddend}
		for _, d := range step.Request.Descriptors {
			out := &ratelimitv3.RateLimitDescriptor{}
			for _, e := range d.Entries {
				out.Entries = append(out.Entries, &ratelimitv3.RateLimitDescriptor_Entry{Key: e[0], Value: e[1]})
			}
			if d.Limit != nil {
				out.Limit = &ratelimitv3.RateLimitDescriptor_RateLimitOverride{
					RequestsPerUnit: d.Limit.Requests, Unit: typev3.RateLimitUnit(d.Limit.Unit),
				}
			}
			q.Descriptors = append(q.Descriptors, out)
		}
		got := h.decide(q)
		want := step.Response
		same := got.GetOverallCode().String() == want.Overall && len(got.GetStatuses()) == len(want.Statuses)
		for j, w := range want.Statuses {
			g := got.GetStatuses()[j]
			unit := ""
			if g.GetCurrentLimit() != nil {
				unit = g.GetCurrentLimit().GetUnit().String()
			}
			same = same && g.GetCode().String() == w.Code && g.GetDurationUntilReset().GetSeconds() == w.Reset &&
				g.GetLimitRemaining() == w.Remaining && g.GetCurrentLimit().GetRequestsPerUnit() == w.Requests &&
				unit == w.Unit && g.GetCurrentLimit().GetName() == w.Name
		}
		if v.ID == apart && i > 0 {
			if fresh := got.GetStatuses()[0].GetLimitRemaining(); i == 1 && fresh != 1 {
				t.Errorf("step %d: a_b: c has %d left; it was never used", i, fresh)
			}
			continue
		}
		if !same {
			t.Fatalf("step %d at %d:\ngot  %v\nwant %+v", i, step.Request.At, got, want)
		}
	}
}
