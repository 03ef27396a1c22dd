package policyfile

import (
	"math/bits"
	"net"
	"net/netip"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir/identity"
)

// defaults returns what a file that says nothing means.
func defaults(name string) *File {
	return &File{
		Name: name, Store: Store{URL: "memory"}, KeyPrefix: "weir",
		Listen: Listen{
			HTTP:  Listener{Address: "127.0.0.1:8080"},
			Admin: Listener{Address: "127.0.0.1:8082"},
		},
		ClientIP:    identity.ClientIP{Header: identity.DefaultForwardingHeader, IPv4Prefix: identity.DefaultIPv4Prefix, IPv6Prefix: identity.DefaultIPv6Prefix},
		Headers:     Headers{Triple: true, Draft11: true, XReset: "epoch"},
		RetryJitter: 20_00, DecisionTimeout: 50 * time.Millisecond,
	}
}

// fields are the fields of a policy file.
func (r *reader) fields(f *File) []field {
	return []field{
		{"store", func(n *node, path string) { r.store(n, path, &f.Store) }},
		{"key_prefix", r.keyPrefix(&f.KeyPrefix)},
		{"key_secret_file", r.fileTo(&f.KeySecretFile)},
		{"listen", func(n *node, path string) { r.listen(n, path, &f.Listen) }},
		{"admin", func(n *node, path string) { r.admin(n, path, &f.Admin) }},
		{"client_ip", func(n *node, path string) { r.clientIP(n, path, &f.ClientIP) }},
		{"api_keys", func(n *node, path string) { r.apiKeys(n, path, &f.APIKeys) }},
		{"tenants", func(n *node, path string) { r.tenants(n, path, f) }},
		{"user", func(n *node, path string) { r.user(n, path, &f.User) }},
		{"exempt", func(n *node, path string) { r.exempt(n, path, f) }},
		{"headers", func(n *node, path string) { r.headers(n, path, &f.Headers) }},
		{"retry_jitter", r.percentTo(&f.RetryJitter, 100_00)},
		{"decision_timeout", r.durationTo(&f.DecisionTimeout, time.Millisecond, 10*time.Second)},
		{"max_overshoot", r.percentTo(&f.MaxOvershoot, 100_00)},
		{"regions", func(n *node, path string) { r.regions(n, path, f) }},
		{"events", func(n *node, path string) { r.events(n, path, &f.Events) }},
		{"denied", func(n *node, path string) { r.denied(n, path, &f.Denied) }},
		{"ambiguous_path", func(n *node, path string) {
			f.source.RejectAmbiguous = !isNull(n) && r.word(n, path, "charge", "reject") == "reject"
		}},
		{"limits", func(n *node, path string) { r.limits(n, path, f) }},
		{"tests", func(n *node, path string) { r.tests(n, path, f) }},
	}
}

func scheme(url string) string { s, _, _ := strings.Cut(url, "://"); return s }

func (r *reader) store(n *node, path string, to *Store) {
	if n.kind < sequence {
		r.storeURL(n, path, &to.URL)
		return
	}
	given := r.object(n, path, "store", []field{
		{"url", func(n *node, path string) { r.storeURL(n, path, &to.URL) }},
		{"username", r.scalarTo(&to.Username)},
		{"password_file", r.fileTo(&to.PasswordFile)},
		{"tls", func(n *node, path string) {
			r.object(n, path, "store.tls", []field{
				{"ca_file", r.fileTo(&to.TLS.CAFile)}, {"cert_file", r.fileTo(&to.TLS.CertFile)}, {"key_file", r.fileTo(&to.TLS.KeyFile)},
			})
			if (to.TLS.CertFile == "") != (to.TLS.KeyFile == "") {
				r.fail(n, "cert_file and key_file go together")
			}
		}},
		{"connections", r.connections(&to.Connections)},
	})
	if _, ok := r.places[join(path, "url")]; given && !ok {
		r.fail(n, "store needs url:, such as redis://127.0.0.1:6379/0")
	}
}

// connections reads how many connections to a node: the client takes powers of two,
// and to round what was written would leave the file untrue.
func (r *reader) connections(to *int) func(*node, string) {
	return func(n *node, path string) {
		if r.integerTo(to, 1, 256)(n, path); *to&(*to-1) != 0 {
			r.fail(n, "connections must be a power of two: %d or %d in place of %d", 1<<(bits.Len(uint(*to))-1), 1<<bits.Len(uint(*to)), *to)
		}
	}
}

func (r *reader) keyPrefix(to *string) func(*node, string) {
	return func(n *node, path string) {
		if isNull(n) {
			return
		}
		s, ok := r.scalar(n, path)
		if ok && (s == "" || len(s) > 64 || strings.ContainsAny(s, "{} \t\r\n")) {
			r.fail(n, "key_prefix must have 1 to 64 characters and no braces or spaces: braces would move every key into one cluster slot")
			return
		}
		*to = s
	}
}

func (r *reader) listen(n *node, path string, to *Listen) {
	door := func(name string, l *Listener) field {
		return field{name, func(n *node, path string) { r.listener(n, path, name, l) }}
	}
	r.object(n, path, "listen", []field{
		door("http", &to.HTTP), door("admin", &to.Admin), door("grpc", &to.GRPC), door("resp", &to.RESP),
	})
}

func (r *reader) listener(n *node, path, door string, to *Listener) {
	if isNull(n) {
		return
	}
	faults := len(r.errs)
	if n.kind < sequence {
		r.address(n, path, &to.Address)
	} else {
		r.object(n, path, "listener", []field{
			{"address", func(n *node, path string) { r.address(n, path, &to.Address) }},
			{"auth", r.wordTo(&to.Auth, "token", "mtls", "none")},
			{"token_file", r.fileTo(&to.TokenFile)},
			{"tls", func(n *node, path string) {
				r.object(n, path, "listener.tls", []field{
					{"cert_file", r.fileTo(&to.TLS.CertFile)}, {"key_file", r.fileTo(&to.TLS.KeyFile)},
					{"client_ca_file", r.fileTo(&to.TLS.ClientCAFile)},
				})
				if (to.TLS.CertFile == "") != (to.TLS.KeyFile == "") {
					r.fail(n, "cert_file and key_file go together")
				}
			}},
			{"proxy_protocol", r.truthTo(&to.ProxyProtocol)},
		})
	}
	switch {
	case to.Address == "" || len(r.errs) > faults:
	case to.Auth == "mtls" && to.TLS.ClientCAFile == "":
		r.fail(n, "auth: mtls needs tls: with cert_file, key_file and client_ca_file")
	case to.Auth == "token" && to.TokenFile == "" && door != "admin":
		r.fail(n, "auth: token needs token_file:")
	case to.Auth == "none" && door == "admin" && !loopback(to.Address):
		r.fail(n, "the admin door takes no auth: none off loopback; whoever reaches it can reset limits")
	case to.Auth == "" && door != "admin" && !loopback(to.Address):
		r.fail(n, "%s is reached from other machines, so say who may use it: {address: %s, auth: token|mtls|none}", to.Address, to.Address)
	}
}

// checkAnnounced finds doors whose peers are to announce their clients although
// no peer would be believed: they would serve nobody behind the balancer.
func (r *reader) checkAnnounced(f *File) {
	for _, door := range []struct {
		name string
		is   *Listener
	}{{"http", &f.Listen.HTTP}, {"admin", &f.Listen.Admin}, {"grpc", &f.Listen.GRPC}, {"resp", &f.Listen.RESP}} {
		trusts, setting := len(f.ClientIP.TrustedProxies) > 0, "trusted_proxies"
		if strings.HasPrefix(door.is.Address, "unix:") {
			trusts, setting = f.ClientIP.TrustUnix, "trust_unix"
		}
		if door.is.ProxyProtocol && door.is.Address != "" && !trusts {
			m := r.place("listen." + door.name + ".proxy_protocol")
			r.fail(&node{line: m.line, column: m.column}, "proxy_protocol believes trusted peers and there are none; set client_ip.%s", setting)
		}
	}
}

// address reads host:port, unix:PATH or off.
func (r *reader) address(n *node, path string, to *string) {
	if isNull(n) {
		return
	}
	if n.kind == boolean && n.text == "false" {
		*to = ""
		return
	}
	s, ok := r.scalar(n, path)
	if !ok {
		return
	}
	if s == "off" {
		*to = ""
		return
	}
	if socket, ok := strings.CutPrefix(s, "unix:"); ok {
		if socket == "" {
			r.fail(n, "unix: needs a path, such as unix:/run/weir.sock")
			return
		}
		*to = s
		return
	}
	_, port, err := net.SplitHostPort(s)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		r.fail(n, "%q is no address to listen on; write HOST:PORT, unix:PATH or off", clip(s))
		return
	}
	*to = s
}

// loopback reports whether only this machine reaches the address.
func loopback(address string) bool {
	if strings.HasPrefix(address, "unix:") {
		return true
	}
	host, _, err := net.SplitHostPort(address)
	return err == nil && identity.IsLoopback(host)
}

func (r *reader) admin(n *node, path string, to *Admin) {
	r.object(n, path, "admin", []field{
		{"token_file", r.fileTo(&to.TokenFile)},
		{"metrics", func(n *node, path string) {
			auth := ""
			r.object(n, path, "admin.metrics", []field{{"auth", r.wordTo(&auth, "token", "none")}})
			to.OpenMetrics = auth == "none"
		}},
	})
}

func (r *reader) clientIP(n *node, path string, to *identity.ClientIP) {
	r.object(n, path, "client_ip", []field{
		{"trusted_proxies", func(n *node, path string) { to.TrustedProxies = r.prefixes(n, path, "trusted_proxies") }},
		{"header", r.forwardingTo(&to.Header)},
		{"ipv4_prefix", r.integerTo(&to.IPv4Prefix, 1, 32)},
		{"ipv6_prefix", r.integerTo(&to.IPv6Prefix, 1, 128)},
		{"trust_unix", r.truthTo(&to.TrustUnix)},
	})
}

// prefixes reads a list of addresses and ranges.
func (r *reader) prefixes(n *node, path, what string) []netip.Prefix {
	var out []netip.Prefix
	seen := map[netip.Prefix]bool{}
	r.list(n, path, what, func(n *node, path string) {
		s, ok := r.scalar(n, path)
		if !ok {
			return
		}
		p, err := identity.ParsePrefix(s)
		switch {
		case err != nil:
			r.fail(n, "%q is neither an address nor a range such as 192.0.2.0/24 or 2001:db8::/32", clip(s))
		case strings.Contains(s, "/") && !sameStart(p, s):
			r.fail(n, "%s has bits after its length; the range is %s", s, p)
		case seen[p]:
			r.fail(n, "%s stands twice in %s", s, what)
		default:
			seen[p] = true
			out = append(out, p)
		}
	})
	r.notEmpty(n, what, len(out))
	return out
}

// sameStart reports whether s begins with the very address of p: 10.1.2.3/8 is
// most likely a slip, and which of the two is meant cannot be known.
func sameStart(p netip.Prefix, s string) bool {
	given, err := netip.ParsePrefix(s)
	return err == nil && given.Addr().Unmap() == p.Addr()
}

// headerTo reads the name of a header field.
func (r *reader) headerTo(to *string) func(*node, string) {
	return func(n *node, path string) {
		if isNull(n) {
			return
		}
		s, ok := r.scalar(n, path)
		if ok && !isToken(s) {
			r.fail(n, "%q is no header name", clip(s))
			return
		}
		if ok {
			*to = textproto.CanonicalMIMEHeaderKey(s)
		}
	}
}

// forwarding are the headers that may say who the client is.
var forwarding = []string{"X-Forwarded-For", "Forwarded", "X-Real-IP", "CF-Connecting-IP"}

func (r *reader) forwardingTo(to *string) func(*node, string) {
	return func(n *node, path string) {
		if isNull(n) {
			return
		}
		s, ok := r.scalar(n, path)
		if !ok {
			return
		}
		for _, name := range forwarding {
			if strings.EqualFold(s, name) {
				*to = textproto.CanonicalMIMEHeaderKey(name)
				return
			}
		}
		r.fail(n, "%q is no header that says who the client is%s", clip(s), didYouMean(s, forwarding))
	}
}

func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c) })
}
