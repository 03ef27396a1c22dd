package headers_test

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/headers"
)

func TestProblem(t *testing.T) {
	shown, hidden := headers.Show{}, headers.Show{Hidden: true}
	for _, c := range []struct {
		name     string
		decision weir.Decision
		show     headers.Show
		denied   *headers.Body
		method   string
		status   int
		mime     string
		body     string
	}{
		{
			name: "quota", decision: denied(weir.Limited, 5, 0, 12*time.Second, time.Minute), show: shown, status: 429, mime: headers.ProblemType,
			body: `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,"detail":"Too many requests. Try again in 12 seconds.","violated-policies":["login"]}`,
		},
		{
			name: "quota that is hidden", decision: denied(weir.Limited, 5, 0, time.Second, time.Minute), show: hidden, status: 429, mime: headers.ProblemType,
			body: `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,"detail":"Too many requests. Try again in 1 second.","violated-policies":[]}`,
		},
		{
			name: "too large", decision: denied(weir.TooLarge, 5, 5, weir.Never, 0), show: shown, status: 429, mime: headers.ProblemType,
			body: `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,"detail":"The request costs more than its quota can ever hold.","violated-policies":["login"]}`,
		},
		{
			name: "closed", decision: denied(weir.FailedClosed, 5, 0, time.Second, 0), show: shown, status: 503, mime: headers.ProblemType,
			body: `{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Temporary Reduced Capacity","status":503,"detail":"Quotas cannot be checked at present. Try again in 1 second.","violated-policies":["login"]}`,
		},
		{
			name: "missing", decision: denied(weir.Missing, 5, 0, weir.Never, 0), show: shown, status: 403, mime: headers.ProblemType,
			body: `{"type":"about:blank","title":"Forbidden","status":403,"detail":"The request lacks what its limit is counted by."}`,
		},
		{name: "HEAD has no body", decision: denied(weir.Limited, 5, 0, 12*time.Second, time.Minute), method: "HEAD", status: 429, mime: headers.ProblemType},
		{
			name: "the policy's own body", decision: denied(weir.Limited, 5, 0, 12*time.Second, time.Minute), status: 420, mime: "text/html", body: "<p>calm",
			denied: &headers.Body{Status: 420, ContentType: "text/html", Content: []byte("<p>calm")},
		},
		{
			name: "the policy's own body is for quotas", decision: denied(weir.FailedClosed, 5, 0, time.Second, 0), status: 503, mime: headers.ProblemType,
			denied: &headers.Body{Status: 420, ContentType: "text/html", Content: []byte("<p>calm")},
			body:   `{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Temporary Reduced Capacity","status":503,"detail":"Quotas cannot be checked at present. Try again in 1 second.","violated-policies":["login"]}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, shows := bill(t, 0, decided{limit: "5/min name=login", Decision: c.decision, show: c.show})
			a := format(t, headers.Options{Denied: c.denied}).Answer(b, shows)
			w := httptest.NewRecorder()
			w.Header().Set("Content-Encoding", "gzip")
			method := c.method
			if method == "" {
				method = "GET"
			}
			if err := a.Refuse(w, httptest.NewRequest(method, "/", nil)); err != nil {
				t.Fatal(err)
			}
			got := w.Result()
			if got.StatusCode != c.status || got.Header.Get("Content-Type") != c.mime || strings.TrimSuffix(w.Body.String(), "\n") != c.body {
				t.Errorf("got %d %s\n%s\nwant %d %s\n%s", got.StatusCode, got.Header.Get("Content-Type"), w.Body, c.status, c.mime, c.body)
			}
			if got.Header.Get("Cache-Control") != "no-store" || got.Header.Get("Content-Encoding") != "" {
				t.Errorf("fields %v", got.Header)
			}
		})
	}
}
