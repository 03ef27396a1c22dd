package api

import (
	"encoding/json"
	"net/http"
)

// Problem is a refusal that is no decision, as RFC 9457 spells it.
type Problem struct {
	Status int
	Detail string
	Field  string // path of the field that is wrong, or ""
}

// Refuse answers with p. Header fields set before are sent along.
func Refuse(w http.ResponseWriter, p Problem) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(p.Status)
	body, err := json.Marshal(struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail,omitempty"`
		Field  string `json:"field,omitempty"`
	}{"about:blank", http.StatusText(p.Status), p.Status, p.Detail, p.Field})
	if err != nil {
		return // strings and a number: cannot happen, and the status has gone out
	}
	// A peer that has gone away needs no answer.
	_, _ = w.Write(append(body, '\n'))
}
