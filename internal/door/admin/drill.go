package admin

import (
	"net/http"
	"time"

	"github.com/weirhq/weir/internal/door/api"
)

// Drill is a fault of the store that is asked for.
type Drill struct {
	Fault   string        // latency, stall, unreachable or refusal
	Latency time.Duration // of latency
	Reply   string        // of refusal: the first word of the server's error
	Percent int           // of the calls
	For     time.Duration // 0 ends the drill that is on

	By, From string // who asks, and from where they come
}

// Drills makes the store fail on purpose.
type Drills interface {
	// Begin injects d, which it checks, and returns when that ends. The error is
	// an *weir.InputError.
	Begin(d Drill) (until time.Time, err error)
}

// Drilled is the answer of /v1/drill.
type Drilled struct {
	Fault string `json:"fault"`
	Until string `json:"until"` // RFC 3339, UTC
}

const longestDrill = 10 * time.Minute

// drill makes the store fail for a while, on this instance alone.
func (d *door) drill(w http.ResponseWriter, r *http.Request) {
	if d.Drills == nil {
		api.Refuse(w, api.Problem{Status: http.StatusForbidden, Detail: "drills are not allowed here: weir serve --allow-drills, with a shared store"})
		return
	}
	f := Drill{Percent: 100, From: peer(r)}
	given := false
	fields := []string{"fault", "latency", "reply", "percent", "for", "by"}
	ok := api.Read(w, r, func(b *api.Body) error {
		err := b.Object(fields, func(field int) (err error) {
			if fields[field] == "percent" {
				n, err := b.Whole()
				f.Percent = int(max(0, min(n, 101)))
				return err
			}
			s, err := b.Text()
			if err != nil {
				return err
			}
			switch fields[field] {
			case "fault":
				f.Fault = s
			case "latency":
				f.Latency, err = length(s, time.Minute)
			case "reply":
				f.Reply = s
			case "for":
				given = true
				f.For, err = length(s, longestDrill)
			case "by":
				if f.By = s; len(s) > 64 {
					return api.Wrong("has more than 64 bytes")
				}
			}
			return err
		})
		if err == nil && !given {
			err = api.Within("for", api.Wrong("is missing"))
		}
		return err
	})
	if !ok {
		return
	}
	until, err := d.Drills.Begin(f)
	if err != nil {
		api.Fail(w, err)
		return
	}
	api.Write(w, http.StatusOK, Drilled{f.Fault, until.UTC().Format(time.RFC3339)})
}
