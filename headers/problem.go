package headers

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/weirhq/weir"
)

// The problem types of draft-ietf-httpapi-ratelimit-headers that a limiter
// gives.
const (
	QuotaExceeded   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	ReducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
)

// ProblemType is the Content-Type of a Problem.
const ProblemType = "application/problem+json"

// Problem is a problem details object (RFC 9457).
type Problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail,omitempty"`
	Violated []string `json:"violated-policies,omitzero"` // names as in RateLimit-Policy
	Decision string   `json:"decision,omitempty"`         // names the refusal, for weir why
}

// Problem returns the body of a refusal. It names no limit that is hidden.
func (a *Answer) Problem() Problem {
	p := Problem{Type: "about:blank", Status: a.Status, Title: http.StatusText(a.Status), Decision: a.id}
	switch a.meant {
	case http.StatusForbidden:
		p.Detail = "This caller is blocked."
		if a.reason == weir.Missing {
			p.Detail = "The request lacks what its limit is counted by."
		}
		return p
	case http.StatusServiceUnavailable:
		p.Type, p.Title = ReducedCapacity, "Temporary Reduced Capacity"
		p.Detail = "Quotas cannot be checked at present." + tryAgain(a.Wait)
	default:
		p.Type, p.Title = QuotaExceeded, "Quota Exceeded"
		p.Detail = a.why() + tryAgain(a.Wait)
	}
	p.Violated = a.violated
	if p.Violated == nil {
		p.Violated = []string{}
	}
	return p
}

func (a *Answer) why() string {
	switch a.reason {
	case weir.TooLarge:
		return "The request costs more than its quota can ever hold."
	case weir.Blocked:
		return "This caller is blocked for a while."
	}
	return "Too many requests."
}

func tryAgain(wait time.Duration) string {
	switch s := Seconds(wait); s {
	case 0:
		return ""
	case 1:
		return " Try again in 1 second."
	default:
		return " Try again in " + strconv.FormatInt(s, 10) + " seconds."
	}
}

// Body returns the body of a refusal and its Content-Type: that of
// Options.Denied, or the Problem.
func (a *Answer) Body() (contentType string, content []byte) {
	if a.denied != nil {
		return a.denied.ContentType, a.denied.Content
	}
	content, err := json.Marshal(a.Problem())
	if err != nil { // a struct of strings and a number: it cannot
		content = []byte("{}")
	}
	return ProblemType, append(content, '\n')
}

// Refuse answers r with the refusal: the fields, the status, and the body unless
// r is a HEAD. The bill must have been denied.
func (a *Answer) Refuse(w http.ResponseWriter, r *http.Request) error {
	a.Write(w.Header())
	contentType, content := a.Body()
	return respond(w, r, a.Status, contentType, content)
}

// Refuse answers r with p and no other field but Cache-Control. It is for
// refusals that no bill decided, such as bad input.
func (p Problem) Refuse(w http.ResponseWriter, r *http.Request) error {
	content, err := json.Marshal(p)
	if err != nil {
		return err
	}
	w.Header()["Cache-Control"] = []string{"no-store"}
	return respond(w, r, p.Status, ProblemType, append(content, '\n'))
}

// respond writes the headers before the status and the status before the body,
// and takes back what described a body that now is another.
func respond(w http.ResponseWriter, r *http.Request, status int, contentType string, content []byte) error {
	h := w.Header()
	for _, stale := range [...]string{"Content-Encoding", "Etag", "Last-Modified", "Content-Type"} {
		delete(h, stale)
	}
	if contentType != "" {
		h["Content-Type"] = []string{contentType}
	}
	h["Content-Length"] = []string{strconv.Itoa(len(content))}
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return nil
	}
	_, err := w.Write(content)
	return err
}
