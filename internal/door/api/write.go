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
	WriteText(w, status, append(body, '\n'))
}

// jsonType is never changed.
var jsonType = []string{"application/json"}

// counts is how long a body may be for net/http to count it by itself.
const counts = 2048

// WriteText answers with a body that is JSON already.
func WriteText(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h["Content-Type"] = jsonType
	if len(body) > counts {
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
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
