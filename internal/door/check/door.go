package check

import (
	"context"
	"net/http"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/gate"
	"github.com/weirhq/weir/headers"
	"github.com/weirhq/weir/internal/door/api"
)

// Options is what the door stands in front of.
type Options struct {
	Limiter *weir.Limiter
	Gate    *gate.Gate             // for check
	Format  func() *headers.Format // of the policy in force
	Secret  func() []byte          // signs receipts; empty while it cannot be had
	Status  func(context.Context) Status
}

// Status is what readyz says.
type Status struct {
	Ready  bool   `json:"-"`
	Status string `json:"status"`           // ready, degraded, starting or draining
	Store  string `json:"store"`            // the store's name, as decisions give it
	Cause  string `json:"cause,omitempty"`  // kind of the store error, where it does not answer
	Policy string `json:"policy,omitempty"` // what is wrong with the policy file, where something is
	// ClientIP tells of forwarding headers that were ignored.
	ClientIP string `json:"client_ip,omitempty"`
}

// door serves the API.
type door struct {
	Options
	receipts receipts
}

// New returns the API. It is safe for concurrent use.
func New(o Options) http.Handler {
	d := &door{Options: o, receipts: receipts{o.Secret}}
	return api.Routes{
		"/v1/take":       {Method: http.MethodPost, Serve: d.take},
		"/v1/peek":       {Method: http.MethodPost, Serve: d.peek},
		"/v1/take/batch": {Method: http.MethodPost, Serve: d.batch},
		"/v1/refund":     {Method: http.MethodPost, Serve: d.refund},
		"/v1/check":      {Method: http.MethodPost, Serve: d.check},
		"/healthz":       {Method: http.MethodGet, Serve: d.healthz},
		"/readyz":        {Method: http.MethodGet, Serve: d.readyz},
	}
}
