package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/internal/door/api"
	"github.com/weirhq/weir/observe"
	"github.com/weirhq/weir/observe/refusals"
	"github.com/weirhq/weir/observe/stream"
)

// Why is the answer of /v1/why: one refusal, and how things stand now.
type Why struct {
	ID     string `json:"id"`
	At     string `json:"at"` // RFC 3339, UTC
	Rule   string `json:"rule"`
	Reason string `json:"reason"`
	Source string `json:"source"`
	Door   string `json:"door,omitempty"`
	Tenant string `json:"tenant,omitempty"`
	Plan   string `json:"plan,omitempty"`
	// Instance made the decision, where it was another and is known from the
	// stream of events, which knows no balance.
	Instance string `json:"instance,omitempty"`
	KeyHash  string `json:"key_hash,omitempty"`
	Key      string `json:"key,omitempty"` // for people
	Limit    string `json:"limit,omitempty"`
	Cost     int64  `json:"cost,omitempty"`
	// StoreFailed says that the limit's stated answer stood in for the store's.
	StoreFailed bool     `json:"store_failed,omitempty"`
	Then        *Balance `json:"then,omitempty"`
	Now         *Balance `json:"now,omitempty"` // as the same request would find it
}

// Balance is how a balance stands.
type Balance struct {
	Allowed      bool   `json:"allowed"`
	Remaining    int64  `json:"remaining"`
	RetryAfterMS int64  `json:"retry_after_ms"`      // -1 is never
	ClearsAt     string `json:"clears_at,omitempty"` // RFC 3339, UTC: when it would be admitted
}

func (d *door) why(w http.ResponseWriter, r *http.Request) {
	id := r.URL.Query().Get("id")
	if id == "" {
		api.Refuse(w, api.Problem{Status: http.StatusBadRequest, Field: "id", Detail: "id is missing: what stands in the field Weir-Decision of the refusal"})
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	if found, ok := d.Refusals.Find(id); ok {
		api.Write(w, http.StatusOK, d.explainRefusal(r.Context(), &found))
		return
	}
	if d.Events != nil {
		if e, ok := d.Events(r.Context(), id); ok {
			api.Write(w, http.StatusOK, whyOf(&e))
			return
		}
	}
	api.Refuse(w, api.Problem{Status: http.StatusNotFound, Detail: "this instance does not remember that refusal: it knows its last ones; with events in a Redis stream those of all instances"})
}

func (d *door) explainRefusal(ctx context.Context, f *refusals.Refusal) Why {
	y := Why{
		ID: f.ID, At: rfc3339(f.At), Rule: observe.Harmless(f.Rule), Reason: f.Reason.String(), Source: f.Source, Door: f.Door,
		Tenant: observe.Harmless(f.Tenant), Plan: f.Plan, StoreFailed: f.Trouble,
	}
	if f.Charge == nil {
		return y
	}
	y.Key, y.Limit, y.Cost = d.keyText(f.Rule, f.Charge.Key), f.Charge.Limit.String(), f.Charge.Cost
	y.KeyHash = observe.KeyHash(d.Secret, f.Charge.Key)
	y.Then = balance(&f.Decision, f.At)
	if now, err := d.Limiter.Peek(ctx, *f.Charge); err == nil {
		y.Now = balance(&now, time.Now())
	}
	return y
}

func balance(d *weir.Decision, at time.Time) *Balance {
	b := &Balance{Allowed: d.Allowed, Remaining: d.Remaining, RetryAfterMS: -1}
	if d.RetryAfter != weir.Never {
		b.RetryAfterMS = int64((d.RetryAfter + time.Millisecond - 1) / time.Millisecond)
		if !d.Allowed {
			b.ClearsAt = rfc3339(at.Add(d.RetryAfter))
		}
	}
	return b
}

func whyOf(e *stream.Event) Why {
	return Why{
		ID: e.ID, At: rfc3339(time.UnixMilli(e.TimeMS)), Rule: observe.Harmless(e.Rule), Reason: e.Reason, Source: e.Source,
		Tenant: observe.Harmless(e.Tenant), Plan: observe.Harmless(e.Plan), Instance: e.Instance, KeyHash: e.KeyHash, Cost: e.Cost,
	}
}

func rfc3339(t time.Time) string { return t.UTC().Format(time.RFC3339) }
