package api

import (
	"bytes"
	"errors"
	"mime"
	"net/http"
	"strings"
	"sync"
)

// maxBody bounds a body. Its name in words is in Read.
const maxBody = 1 << 20

// taken is a body and its text; they are used again.
type taken struct {
	text bytes.Buffer
	body Body
	last lastLimit
}

var bodies = sync.Pool{New: func() any { return new(taken) }}

// Read calls parse with the request's body, and answers the request if the body
// or what parse makes of it is bad. What parse keeps, it has copied.
func Read(w http.ResponseWriter, r *http.Request, parse func(*Body) error) bool {
	if !isJSON(r.Header) {
		w.Header().Set("Accept", "application/json")
		Refuse(w, Problem{Status: http.StatusUnsupportedMediaType, Detail: "the Content-Type must be application/json, without a Content-Encoding"})
		return false
	}
	t := bodies.Get().(*taken)
	t.text.Reset()
	defer bodies.Put(t)
	if _, err := t.text.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody)); err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			Refuse(w, Problem{Status: http.StatusRequestEntityTooLarge, Detail: "a body holds at most 1 MiB"})
		} else {
			Refuse(w, Problem{Status: http.StatusBadRequest, Detail: "the body did not arrive whole"})
		}
		return false
	}
	var err error
	if t.body, err = newBody(t.text.Bytes()); err == nil {
		t.body.last = &t.last
		err = parse(&t.body)
	}
	if err != nil {
		Fail(w, err)
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
