package proxy

import (
	"errors"
	"io"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"sync"
)

// claims are the fields by which a request says where it comes from. The
// upstream believes them, since they come from its proxy; so they pass from
// peers that the policy trusts, and from nobody else. With them goes all that
// begins with X-Forwarded- or X-Original-: every server has words of its own.
var claims = []string{
	"Forwarded", "X-Real-Ip", "Cf-Connecting-Ip", "Cf-Connecting-Ipv6", "Cf-Pseudo-Ipv4", "True-Client-Ip",
	"X-Client-Ip", "X-Cluster-Client-Ip", "Fastly-Client-Ip", "X-Envoy-External-Address", "X-Rewrite-Url",
}

// isClaim takes a canonical name.
func isClaim(name string) bool {
	name = dashed(name)
	return strings.HasPrefix(name, "X-Forwarded-") || strings.HasPrefix(name, "X-Original-") || slices.Contains(claims, name)
}

// dashed returns a canonical name with a dash for whatever is no letter and no digit.
// To CGI, WSGI and what descends from them all of these are one character, so that
// X_Real_IP says to them what X-Real-IP says.
func dashed(name string) string {
	odd := func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}
	if plain := strings.Map(odd, name); plain != name { // Map copies nothing if nothing changes
		return http.CanonicalHeaderKey(plain)
	}
	return name
}

// drop deletes the field, in whatever spelling.
func drop(h http.Header, name string) {
	name = dashed(http.CanonicalHeaderKey(name))
	for spelled := range h {
		if dashed(spelled) == name {
			delete(h, spelled)
		}
	}
}

// dropClaims deletes what says where a request comes from, or, by the fields in names,
// from whom.
func dropClaims(h http.Header, names []string) {
	for name := range h {
		if isClaim(name) {
			delete(h, name)
		}
	}
	for _, name := range names {
		drop(h, name)
	}
}

// unbelieved is the body of a request from a peer that is not trusted: what must not
// be said before it is not said behind it, in trailers, either. Servers that put these
// among the headers exist.
type unbelieved struct {
	io.ReadCloser
	trailer http.Header // filled in when the body ends
	names   []string
}

// Read implements io.Reader.
func (u unbelieved) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		dropClaims(u.trailer, u.names)
	}
	return n, err
}

// rewrite makes the request to the upstream. ReverseProxy has dropped hop-by-hop
// fields and those of the X-Forwarded family from pr.Out.
func (p *proxy) rewrite(pr *httputil.ProxyRequest) {
	caller := &passedOf(pr.In.Context()).caller
	// ReverseProxy drops what it cannot parse of a query; the upstream is to see
	// what the client wrote, and the policy has read the same text.
	pr.Out.URL.RawQuery = pr.In.URL.RawQuery
	pr.SetURL(p.Upstreams[0]) // the path; who gets the request is decided when it is sent
	if pr.In.Method == http.MethodOptions && pr.In.URL.Path == "*" {
		pr.Out.URL.Opaque = "*" // of the server as a whole, and no path that could be joined
	}
	// The trailers of a request are known when its body has been read. They are
	// filled into the map of the incoming one.
	pr.Out.Trailer = pr.In.Trailer
	if !p.OwnHost {
		pr.Out.Host = pr.In.Host
	}
	if pr.In.Header["Upgrade"] != nil && !isWebsocket(pr.In.Header) {
		// An upgrade to h2c, say, would carry requests past the gate.
		delete(pr.Out.Header, "Upgrade")
		delete(pr.Out.Header, "Connection")
	}
	in, out := pr.In.Header, pr.Out.Header
	for name := range in { // ReverseProxy has taken some from out already
		if !isClaim(name) {
			continue
		}
		if delete(out, name); caller.Trusted {
			out[name] = in[name]
		}
	}
	if !caller.Trusted {
		for _, name := range p.Identity() {
			drop(out, name)
		}
	}
	before := out["X-Forwarded-For"]
	pr.SetXForwarded()                                  // appends the peer to what stands in X-Forwarded-For
	if out["X-Forwarded-For"] == nil && before != nil { // and drops it for a peer without an address, on a unix socket
		out["X-Forwarded-For"] = []string{strings.Join(before, ", ")}
	}
	if caller.Trusted {
		for _, name := range [...]string{"X-Forwarded-Host", "X-Forwarded-Proto"} {
			if in[name] != nil {
				out[name] = in[name]
			}
		}
	}
	if caller.IP.IsValid() && out["X-Real-Ip"] == nil {
		out["X-Real-Ip"] = []string{caller.IP.String()}
	}
}

// buffers lends the space through which bodies are copied.
type buffers struct{ pool sync.Pool }

func newBuffers() *buffers {
	return &buffers{sync.Pool{New: func() any { return new([bodyBuffer]byte) }}}
}

const bodyBuffer = 32 << 10

// Get implements httputil.BufferPool.
func (b *buffers) Get() []byte { return b.pool.Get().(*[bodyBuffer]byte)[:] }

// Put implements httputil.BufferPool.
func (b *buffers) Put(s []byte) {
	if len(s) == bodyBuffer {
		b.pool.Put((*[bodyBuffer]byte)(s))
	}
}

var _ http.Handler = (*proxy)(nil)
