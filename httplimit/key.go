package httplimit

import (
	"net/http"
	"strconv"
	"strings"
)

// Key says whom a request is charged to: a text that is one caller's and nobody
// else's. "" means that the request lacks what the key is made of; it is then
// charged to its address. A Key is called concurrently.
type Key func(*http.Request) string

// ByHeader keys by a request header. A header that is absent, empty or given
// more than once is missing. The value is what the client says: fit for API keys
// that are checked, not for telling strangers apart. Host is Request.Host, where
// net/http puts it.
func ByHeader(name string) Key {
	name = http.CanonicalHeaderKey(name)
	prefix := "header:" + name + ":"
	if name == "Host" {
		return by(prefix, func(r *http.Request) string { return r.Host })
	}
	return func(r *http.Request) string {
		if v := r.Header[name]; len(v) == 1 && v[0] != "" {
			return prefix + v[0]
		}
		return ""
	}
}

// ByRoute keys by the pattern of the ServeMux that routed the request. It is
// missing where the middleware stands around the mux instead of inside it.
func ByRoute() Key {
	return By("route", func(r *http.Request) string { return r.Pattern })
}

// By keys by what value returns, such as the user that authentication found.
// kind keeps its keys apart from all others; ip, header, route and keyless are
// those of this package. "" from value is a missing key.
func By(kind string, value func(*http.Request) string) Key {
	return by(strings.NewReplacer("%", "%25", ":", "%3A").Replace(kind)+":", value) // a colon ends the kind
}

func by(prefix string, value func(*http.Request) string) Key {
	return func(r *http.Request) string {
		if v := value(r); v != "" {
			return prefix + v
		}
		return ""
	}
}

// Everyone charges all requests to one balance.
func Everyone() Key { return func(*http.Request) string { return "everyone" } }

// First keys by the first of keys that is not missing: the user if there is one,
// else the address.
func First(keys ...Key) Key {
	return func(r *http.Request) string {
		for _, key := range keys {
			if k := key(r); k != "" {
				return k
			}
		}
		return ""
	}
}

// Join keys by all of keys together, such as address and route. It is missing if
// one of them is: a part left out would lump together whoever lacks it. Parts
// carry their length, so that no two lists of parts make one text.
func Join(keys ...Key) Key {
	return func(r *http.Request) string {
		var b strings.Builder
		for _, key := range keys {
			k := key(r)
			if k == "" {
				return ""
			}
			b.WriteString(strconv.Itoa(len(k)))
			b.WriteByte(':')
			b.WriteString(k)
		}
		return b.String()
	}
}
