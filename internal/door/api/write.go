package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/weirhq/weir"
)

// Write answers with a JSON body. A peer that has gone away needs none.
func Write(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		Refuse(w, Problem{Status: http.StatusInternalServerError, Detail: "the answer could not be written"})
		return
	}
	body = append(body, '\n')
	h := w.Header()
	h["Content-Type"] = []string{"application/json"}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// Fail answers with what err is: bad input, or the end of the store, the limiter
// or the request.
func Fail(w http.ResponseWriter, err error) {
	var input *weir.InputError
	var store *weir.StoreError
	switch {
	case errors.As(err, &input):
		Refuse(w, Problem{Status: http.StatusBadRequest, Field: input.Field, Detail: input.Error()})
	case errors.As(err, &store) && store.Unknown:
		Refuse(w, Problem{Status: http.StatusServiceUnavailable, Detail: "the store did not answer (" + store.Kind + "): it may or may not have been done"})
	case errors.As(err, &store):
		Refuse(w, Problem{Status: http.StatusServiceUnavailable, Detail: "the store did not do it: " + store.Kind})
	default:
		Refuse(w, Problem{Status: http.StatusServiceUnavailable, Detail: "the request could not be decided"})
	}
}
