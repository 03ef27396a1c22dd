package httplimit_test

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/weir/httplimit"
)

// endless refuses once, with a body that does not end, and then admits.
type endless struct{ asked int }

func (e *endless) RoundTrip(r *http.Request) (*http.Response, error) {
	e.asked++
	if e.asked > 1 {
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
	}
	body, _ := io.Pipe()
	return &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"2"}}, Body: body, Request: r}, nil
}

// TestRefusalThatDoesNotEnd: what is left of a refusal is worth no more time than the
// connection that it would save.
func TestRefusalThatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, err := httplimit.NewTransport(httplimit.TransportOptions{Base: &endless{}, Retries: 1})
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), "GET", "http://h/", nil)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		w, err := tr.RoundTrip(r)
		if err != nil || w.StatusCode != http.StatusOK {
			t.Fatalf("%v %v", w, err)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}
