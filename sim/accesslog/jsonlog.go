package accesslog

import (
	"bytes"
	"unsafe"

	"github.com/tidwall/gjson"
)

// jsonFields is what a line of JSON says of a request.
type jsonFields struct {
	begin, end, took       gjson.Result // times; end is taken if there is no begin
	client, peer           []byte       // peer is taken if there is no client
	method, target, path   []byte
	query, host, agent     []byte
	referer, forwarded     []byte
	request                []byte // a whole request line
	tookSeconds, requested bool
}

// jsonLine reads a line of JSON by the names of its fields, whichever server it
// is from: nginx (whose names everybody chooses, so the usual ones), Caddy,
// Traefik and Envoy. Traefik and Envoy stamp the beginning of a request, Caddy
// and nginx the end. It returns what is wrong with the line, if anything is.
func (p *parser) jsonLine(line []byte, r *Record) string {
	if !gjson.ValidBytes(line) {
		return "JSON that is cut off or wrong"
	}
	var f jsonFields
	gjson.ParseBytes(line).ForEach(func(key, value gjson.Result) bool { f.take(key.Str, value); return true })
	stamp, isBegin := f.begin, true
	if !stamp.Exists() {
		stamp, isBegin = f.end, false
	}
	us, ok := p.jsonTime(stamp)
	if !ok {
		return "no time in the JSON"
	}
	if f.client == nil && f.peer == nil && f.method == nil && f.target == nil && f.path == nil && f.request == nil && f.forwarded == nil {
		return "JSON about something else than a request"
	}
	r.Stamp = us
	if !isBegin && f.tookSeconds {
		r.Took = seconds(textOf(f.took), secondMicros)
	}
	if f.client == nil {
		f.client = f.peer
	}
	r.Forwarded = p.arena.keep(f.forwarded)
	r.setClient(&p.arena, f.client)
	if r.Client == "" {
		r.setForwarded(&p.arena, f.forwarded)
	}
	r.Host = p.arena.keep(f.host)
	switch {
	case f.target != nil:
		r.setTarget(&p.arena, f.target)
	case f.path != nil:
		r.setTarget(&p.arena, f.path)
	case f.request != nil:
		r.setRequest(&p.arena, f.request)
	}
	if f.query != nil && r.Query == "" {
		r.Query = p.arena.keep(f.query)
	}
	if f.method != nil {
		r.Method = p.arena.method(f.method)
	}
	r.Agent, r.Referer = p.arena.keep(f.agent), p.arena.keep(f.referer)
	return ""
}

func (p *parser) jsonTime(v gjson.Result) (us int64, ok bool) {
	if v.Type == gjson.Number {
		return p.stamps.epoch(v.Raw)
	}
	b := textOf(v)
	if us, ok = p.stamps.iso(b); ok {
		return us, true
	}
	if us, ok = p.stamps.common(b); ok {
		return us, true
	}
	return p.stamps.epoch(string(b))
}

// take sorts a field in by its name.
func (f *jsonFields) take(key string, v gjson.Result) {
	if v.Type == gjson.Null {
		return
	}
	switch key {
	case "StartUTC", "start_time":
		f.begin = v
	case "ts", "msec", "time_iso8601", "time_local", "timestamp", "@timestamp":
		f.end = v
	case "time", "StartLocal", "date":
		if !f.end.Exists() {
			f.end = v
		}
	case "duration", "request_time":
		f.took, f.tookSeconds = v, true
	case "ClientHost", "downstream_remote_address", "client_ip":
		f.client = textOf(v)
	case "remote_addr", "remote_ip", "ClientAddr", "clientip", "client":
		f.peer = textOf(v)
	case "method", "request_method", "RequestMethod":
		f.method = textOf(v)
	case "request_uri", "RequestPath", "x-envoy-original-path", "path":
		f.target = textOf(v)
	case "uri", "x-envoy-origin-path", ":path":
		f.path = textOf(v)
	case "args", "query_string":
		f.query = textOf(v)
	case "host", "http_host", "RequestHost", ":authority", "authority":
		f.host = textOf(v)
	case "http_user_agent", "user_agent", "user-agent", "request_User-Agent", "ua":
		f.agent = textOf(v)
	case "http_referer", "http_referrer", "referer":
		f.referer = textOf(v)
	case "http_x_forwarded_for", "x-forwarded-for", "x_forwarded_for", "request_X-Forwarded-For":
		f.forwarded = textOf(v)
	case "request":
		if v.IsObject() && !f.requested { // Caddy's
			f.requested = true
			v.ForEach(func(key, value gjson.Result) bool { f.takeCaddy(key.Str, value); return true })
		} else if v.Type == gjson.String {
			f.request = textOf(v)
		}
	}
}

func (f *jsonFields) takeCaddy(key string, v gjson.Result) {
	switch key {
	case "headers":
		v.ForEach(func(name, values gjson.Result) bool {
			switch name.Str {
			case "User-Agent":
				f.agent = textOf(values.Get("0"))
			case "Referer":
				f.referer = textOf(values.Get("0"))
			case "X-Forwarded-For":
				f.forwarded = textOf(values.Get("0"))
			}
			return true
		})
	case "client_ip", "remote_ip", "method", "uri", "host":
		f.take(key, v)
	}
}

// textOf returns a value as text: a string without its quotes, anything else as
// it is written. It is not kept beyond the line.
func textOf(v gjson.Result) []byte {
	s := v.Raw
	if v.Type == gjson.String {
		s = v.Str
	}
	if v.IsObject() || v.IsArray() || s == "" {
		return nil
	}
	return unsafe.Slice(unsafe.StringData(s), len(s))
}

// withoutPrefix returns line without what Kubernetes puts before each line:
//
//	2025-12-31T17:37:40.493035218+01:00 stdout F {…
func withoutPrefix(line []byte) []byte {
	if len(line) < 32 || !isDigit(line[0]) || line[4] != '-' || line[10] != 'T' {
		return line
	}
	i := bytes.IndexByte(line[:min(len(line), 48)], ' ')
	if i < 0 {
		return line
	}
	rest := line[i+1:]
	if len(rest) > 9 && (string(rest[:6]) == "stdout" || string(rest[:6]) == "stderr") && rest[6] == ' ' && rest[7] == 'F' && rest[8] == ' ' {
		return rest[9:]
	}
	return line
}
