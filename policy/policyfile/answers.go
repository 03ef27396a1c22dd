package policyfile

import (
	"mime"
	"os"
	"slices"
	"time"
)

// What callers are told, and what is kept of it.

var families = []string{"triple", "draft-11", "x-ratelimit"}

// headers reads the header families: words, or x-ratelimit with its reset form.
// An empty list sends none.
func (r *reader) headers(n *node, path string, to *Headers) {
	if isNull(n) {
		return
	}
	*to = Headers{XReset: "epoch"}
	var seen []string
	add := func(n *node, name string) {
		switch {
		case name == "":
			return
		case slices.Contains(seen, name):
			r.fail(n, "%q stands twice in headers", name)
		}
		seen = append(seen, name)
		switch name {
		case "triple":
			to.Triple = true
		case "draft-11":
			to.Draft11 = true
		case "x-ratelimit":
			to.XRateLimit = true
		}
	}
	xReset := func(n *node, path string) { r.wordTo(&to.XReset, "epoch", "delta")(n, path) }
	r.list(n, path, "headers", func(n *node, path string) {
		if n.kind != mapping {
			add(n, r.word(n, path, families...))
			return
		}
		r.object(n, path, "a header family", []field{
			{"x-ratelimit", func(n *node, path string) {
				add(n, "x-ratelimit")
				r.object(n, path, "x-ratelimit", []field{{"x_reset", xReset}})
			}},
			{"x_reset", xReset},
		})
	})
}

func (r *reader) denied(n *node, path string, to *Denied) {
	given := r.object(n, path, "denied", []field{
		{"status", r.integerTo(&to.Status, 400, 599)},
		{"content_type", func(n *node, path string) {
			r.scalarTo(&to.ContentType)(n, path)
			if _, _, err := mime.ParseMediaType(to.ContentType); to.ContentType != "" && err != nil {
				r.fail(n, "%q is no content type; write one such as text/html", clip(to.ContentType))
			}
		}},
		{"body_file", r.fileTo(&to.BodyFile)},
	})
	switch {
	case !given:
		return
	case (to.ContentType == "") != (to.BodyFile == ""):
		r.fail(n, "content_type and body_file go together")
	case to.Status == 0:
		to.Status = 429
	}
	if to.BodyFile != "" {
		to.Body = r.companion(to.BodyFile, path+".body_file", maxBody)
	}
}

func (r *reader) events(n *node, path string, to *Events) {
	given := r.object(n, path, "events", []field{
		{"redis_stream", r.scalarTo(&to.RedisStream)},
		{"max_len", r.integerTo(&to.MaxLen, 1000, 1_000_000_000)},
		{"max_age", r.durationTo(&to.MaxAge, time.Minute, 366*24*time.Hour)},
		{"file", r.fileTo(&to.File)},
		{"segment_mib", r.integerTo(&to.SegmentMiB, 1, 10_000)},
		{"segments", r.integerTo(&to.Segments, 2, 10_000)},
		{"admitted", r.percentTo(&to.Admitted, 100_00)},
	})
	if info, err := os.Stat(to.File); err == nil && info.IsDir() {
		m := r.place(join(path, "file"))
		r.fail(&node{line: m.line, column: m.column}, "%s is a folder; name a file in it", to.File)
	}
	switch {
	case !given:
	case to.RedisStream == "" && to.File == "":
		r.fail(n, "events needs redis_stream:, such as weir:events, or file:, such as events.jsonl")
	case to.RedisStream != "" && to.File != "":
		r.fail(n, "events go to redis_stream: or to file:, not to both")
	case to.RedisStream == "" && (to.MaxLen > 0 || to.MaxAge > 0):
		r.fail(n, "max_len and max_age are for redis_stream:; files have segment_mib: and segments:")
	case to.File == "" && (to.SegmentMiB > 0 || to.Segments > 0):
		r.fail(n, "segment_mib and segments are for file:; a stream has max_len: or max_age:")
	case to.MaxLen > 0 && to.MaxAge > 0:
		r.fail(n, "a stream is kept by max_len: or by max_age:, not by both")
	}
}
