package admin

import (
	"net/http"
	"strconv"
	"time"

	"github.com/weirhq/weir/gate"
	"github.com/weirhq/weir/internal/door/api"
	"github.com/weirhq/weir/observe"
	"github.com/weirhq/weir/observe/top"
)

// Top is the answer of /v1/top: which keys were asked for most, and refused most,
// since a while, on this instance.
type Top struct {
	Seconds  float64    `json:"seconds"` // that the counts reach back
	Asked    int64      `json:"asked"`   // requests, each charge that decides being one
	Refused  int64      `json:"refused"`
	Hottest  []TopCount `json:"hottest"`
	Refusals []TopCount `json:"refusals"`
}

// TopCount is what is known of one key; the true count lies between.
type TopCount struct {
	Rule    string `json:"rule"`
	Key     string `json:"key"` // for people; no longer unambiguous
	AtLeast int64  `json:"at_least"`
	AtMost  int64  `json:"at_most"`
}

const mostTop = 100

func (d *door) top(w http.ResponseWriter, r *http.Request) {
	n := 10
	if text := r.URL.Query().Get("n"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1 || n > mostTop {
			api.Refuse(w, api.Problem{Status: http.StatusBadRequest, Field: "n", Detail: "n must lie between 1 and 100"})
			return
		}
	}
	report := d.Top.Report(n)
	w.Header().Set("Cache-Control", "no-store")
	api.Write(w, http.StatusOK, Top{
		Seconds: time.Since(report.Since).Round(time.Millisecond).Seconds(), Asked: report.Asked, Refused: report.Refused,
		Hottest: d.topCounts(report.Hottest), Refusals: d.topCounts(report.Refusals),
	})
}

func (d *door) topCounts(counts []top.Count) []TopCount {
	all := []TopCount{}
	for _, c := range counts {
		all = append(all, TopCount{observe.Harmless(c.Rule), d.keyText(c.Rule, c.Key), c.AtLeast, c.AtMost})
	}
	return all
}

// keyText returns the key of a rule of the policy, of a descriptor, or of take, for
// people. Callers choose what stands in it.
func (d *door) keyText(rule, key string) string {
	for _, r := range d.Gate.Policy().Rules() {
		if r.Name == rule {
			return observe.Harmless(gate.KeyText(r, key))
		}
	}
	if rule != observe.Adhoc && d.Descriptors != nil {
		if text, ok := d.Descriptors(key); ok {
			key = text
		}
	}
	return observe.Harmless(key)
}
