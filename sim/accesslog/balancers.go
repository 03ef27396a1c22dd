package accesslog

import "bytes"

// envoy reads Envoy's default text format, which stamps the beginning:
//
//	[2016-04-15T20:17:00.310Z] "POST /a HTTP/2" 204 - 154 0 226 100 "10.0.35.28" "agent" "id" "authority" "tcp://10.0.2.1:80"
//
// The client stands in X-Forwarded-For alone, and its last entry is who
// connected to Envoy.
func (p *parser) envoy(line []byte, r *Record) string {
	end := bytes.IndexByte(line, ']')
	if line[0] != '[' || end < 0 {
		return "no time in brackets"
	}
	us, ok := p.stamps.iso(line[1:end])
	if !ok {
		return "the time in brackets is none"
	}
	rest := bytes.TrimLeft(line[end+1:], " ")
	if len(rest) == 0 || rest[0] != '"' {
		return "no request in quotes after the time"
	}
	request, rest, ok := quoted(rest)
	status, rest := word(rest)
	if !ok || !isStatus(status) {
		return "no status after the request"
	}
	// Flags, reasons, bytes and durations: their number differs between versions,
	// and a reason may stand in quotes. The last of them is no quoted word.
	var forwarded, agent, host []byte
	for rest = bytes.TrimLeft(rest, " "); len(rest) > 0; rest = bytes.TrimLeft(rest, " ") {
		isQuoted := rest[0] == '"'
		forwarded, rest = word(rest)
		if isQuoted && len(rest) > 1 && rest[1] == '"' {
			break
		}
		forwarded = nil
	}
	agent, rest = word(rest)
	_, rest = word(rest)
	host, _ = word(rest)
	r.Stamp = us
	r.Host, r.Agent = p.arena.keep(host), p.arena.keep(agent)
	r.setForwarded(&p.arena, forwarded)
	r.setRequest(&p.arena, request)
	return ""
}

// setForwarded takes X-Forwarded-For where it is all that is known of the
// client: the last entry is the peer, the only one that nobody could make up.
func (r *Record) setForwarded(a *arena, list []byte) {
	r.Forwarded = a.keep(list)
	if len(r.Forwarded) > 0 {
		r.setClient(a, bytes.TrimSpace(list[bytes.LastIndexByte(list, ',')+1:]))
	}
}

// alb reads the format of AWS application load balancers, which stamps the end:
//
//	https 2018-07-02T22:23:00.186641Z app/x 192.0.2.1:2817 10.0.0.1:80 0.086 0.048 0.037 200 200 0 57 "GET https://h:443/ HTTP/1.1" "agent" …
//
// The three durations are -1 where the request was not passed on.
func (p *parser) alb(line []byte, r *Record) string {
	var words [12][]byte
	rest := line
	for i := range words {
		words[i], rest = word(rest)
	}
	us, ok := p.stamps.iso(words[1])
	if !ok {
		return "the second word is no time"
	}
	if !isStatus(words[8]) || len(rest) == 0 {
		return "fewer words than a load balancer writes"
	}
	request, rest := word(rest)
	agent, _ := word(rest)
	r.Stamp = us
	for _, took := range words[5:8] {
		r.Took += seconds(took, secondMicros)
	}
	r.Agent = p.arena.keep(agent)
	r.setClient(&p.arena, words[3])
	r.setRequest(&p.arena, request)
	return ""
}

// haproxy reads the httplog format behind whatever syslog puts in front. The
// stamp is when the request came:
//
//	… haproxy[7]: 192.0.2.1:53332 [25/Feb/2019:16:19:48.143] front back/server 0/0/7/1457/1487 200 … {…} "GET / HTTP/1.1"
func (p *parser) haproxy(line []byte, r *Record) string {
	open := haproxyStampAt(line)
	if open < 0 {
		return "no time with milliseconds in brackets"
	}
	end := open + 2 + bytes.IndexByte(line[open+2:], ']')
	us, ok := p.stamps.haproxy(line[open+2 : end])
	if !ok {
		return "the time in brackets is none"
	}
	_, rest := word(line[end+1:]) // frontend
	_, rest = word(rest)          // backend/server
	timers, rest := word(rest)
	status, rest := word(rest)
	if bytes.Count(timers, []byte{'/'}) < 4 || !isStatus(status) {
		return "not a line about an HTTP request"
	}
	quote := bytes.LastIndex(rest, []byte(` "`))
	if quote < 0 {
		return "no request in quotes"
	}
	request, _, _ := quoted(rest[quote+1:]) // a long one is cut, with its quote
	r.Stamp = us
	client := line[bytes.LastIndexByte(line[:open], ' ')+1 : open]
	r.setClient(&p.arena, client[:lastColon(client)]) // IPv6 stands without brackets
	r.setRequest(&p.arena, request)
	return ""
}

// haproxyStampAt finds " [dd/Mon/yyyy:hh:mm:ss.mmm]".
func haproxyStampAt(line []byte) int {
	for at := 0; ; {
		i := bytes.Index(line[at:], []byte(" ["))
		if i < 0 {
			return -1
		}
		at += i
		if b := line[at:]; len(b) > 26 && b[4] == '/' && b[8] == '/' && b[22] == '.' && bytes.IndexByte(b[22:min(len(b), 34)], ']') > 0 {
			return at
		}
		at += 2
	}
}
