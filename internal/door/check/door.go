package check

import (
	"bytes"
	"context"
	"errors"
	"mime"
	"net/http"
	"strings"
	"sync"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/gate"
	"github.com/weirhq/weir/headers"
	"github.com/weirhq/weir/internal/door/guard"
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
	routes   map[string]route
}

type route struct {
	method string
	serve  func(*door, http.ResponseWriter, *http.Request)
}

// New returns the API. It is safe for concurrent use.
func New(o Options) http.Handler {
	return &door{Options: o, receipts: receipts{o.Secret}, routes: map[string]route{
		"/v1/take":       {http.MethodPost, (*door).take},
		"/v1/peek":       {http.MethodPost, (*door).peek},
		"/v1/take/batch": {http.MethodPost, (*door).batch},
		"/v1/refund":     {http.MethodPost, (*door).refund},
		"/v1/check":      {http.MethodPost, (*door).check},
		"/healthz":       {http.MethodGet, (*door).healthz},
		"/readyz":        {http.MethodGet, (*door).readyz},
	}}
}

// ServeHTTP implements http.Handler. The routes are few and fixed, and a mux
// would answer a wrong method in plain text.
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	route, ok := d.routes[r.URL.Path]
	if !ok {
		guard.Refuse(w, guard.Problem{Status: http.StatusNotFound, Detail: "there is nothing at this path"})
		return
	}
	get := route.method == http.MethodGet
	if r.Method != route.method && !(get && r.Method == http.MethodHead) {
		allow := route.method
		if get {
			allow = "GET, HEAD"
		}
		w.Header().Set("Allow", allow)
		guard.Refuse(w, guard.Problem{Status: http.StatusMethodNotAllowed, Detail: "this path takes " + allow})
		return
	}
	route.serve(d, w, r)
}

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// read calls parse with a walker at the request's body, and answers the request
// if the body or what parse makes of it is bad. What parse keeps, it has copied.
func read(w http.ResponseWriter, r *http.Request, parse func(*walker) error) bool {
	if !isJSON(r.Header) {
		w.Header().Set("Accept", "application/json")
		guard.Refuse(w, guard.Problem{Status: http.StatusUnsupportedMediaType, Detail: "the Content-Type must be application/json, without a Content-Encoding"})
		return false
	}
	buffer := buffers.Get().(*bytes.Buffer)
	buffer.Reset()
	defer buffers.Put(buffer)
	if _, err := buffer.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody)); err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			guard.Refuse(w, guard.Problem{Status: http.StatusRequestEntityTooLarge, Detail: "a body holds at most 1 MiB"})
		} else {
			guard.Refuse(w, guard.Problem{Status: http.StatusBadRequest, Detail: "the body did not arrive whole"})
		}
		return false
	}
	walker, err := newWalker(buffer.Bytes())
	if err == nil {
		err = parse(walker)
	}
	if err != nil {
		refuse(w, err)
		return false
	}
	return true
}

// isJSON reports whether the fields announce plain JSON in UTF-8.
func isJSON(h http.Header) bool {
	if e := h.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return false
	}
	types := h["Content-Type"]
	if len(types) != 1 {
		return false
	}
	if types[0] == "application/json" {
		return true
	}
	media, params, err := mime.ParseMediaType(types[0])
	charset, given := params["charset"]
	return err == nil && media == "application/json" && (!given || strings.EqualFold(charset, "utf-8"))
}

// refuse answers with what err is: bad input, or the end of the limiter or of
// the request.
func refuse(w http.ResponseWriter, err error) {
	var input *weir.InputError
	var store *weir.StoreError
	switch {
	case errors.As(err, &input):
		guard.Refuse(w, guard.Problem{Status: http.StatusBadRequest, Field: input.Field, Detail: input.Error()})
	case errors.As(err, &store):
		guard.Refuse(w, guard.Problem{Status: http.StatusServiceUnavailable, Detail: "the store did not do it: " + store.Kind})
	default:
		guard.Refuse(w, guard.Problem{Status: http.StatusServiceUnavailable, Detail: "the request could not be decided"})
	}
}
