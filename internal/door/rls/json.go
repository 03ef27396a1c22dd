package rls

import (
	"errors"
	"io"
	"net/http"
	"strings"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
)

// JSONPath is where JSON is asked for, and HealthPath what that server's probes
// look at.
const (
	JSONPath   = "/json"
	HealthPath = "/healthcheck"
)

// JSON returns the door for those who do not speak gRPC: a request as JSON, by any
// method, answered by a response as JSON, 200 if it is OK and 429 if it is
// OVER_LIMIT. 400 is for what cannot be read or answered.
func (s *Service) JSON() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMessage))
		var tooLarge *http.MaxBytesError
		switch {
		case errors.As(err, &tooLarge):
			fail(w, http.StatusRequestEntityTooLarge, "a body holds at most 1 MiB")
			return
		case err != nil:
			fail(w, http.StatusBadRequest, "the body did not arrive whole")
			return
		}
		q := new(rlsv3.RateLimitRequest)
		if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(body, q); err != nil {
			fail(w, http.StatusBadRequest, "the body is no RateLimitRequest: "+strings.ReplaceAll(err.Error(), "\u00a0", " "))
			return
		}
		answer, err := s.Decide(r.Context(), q)
		if err != nil {
			fail(w, http.StatusBadRequest, status.Convert(err).Message())
			return
		}
		text, err := protojson.Marshal(answer)
		if err != nil {
			fail(w, http.StatusInternalServerError, "the answer could not be written")
			return
		}
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("Cache-Control", "no-store")
		if answer.GetOverallCode() == over {
			w.WriteHeader(http.StatusTooManyRequests)
		}
		_, _ = w.Write(text) // a peer that has gone away needs no answer
	})
}

// Health answers the probes of that server.
func Health(w http.ResponseWriter, well bool) {
	if !well {
		fail(w, http.StatusInternalServerError, "draining")
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, "OK")
}

// fail answers in plain text, as that server does.
func fail(w http.ResponseWriter, code int, problem string) {
	w.Header().Set("Cache-Control", "no-store")
	http.Error(w, problem, code)
}
