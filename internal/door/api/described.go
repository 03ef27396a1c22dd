package api

import (
	"net/textproto"
	"strings"

	"github.com/weirhq/weir/identity"
)

// Described is a request described by someone who has it: the body of check and
// of explain.
type Described struct {
	Call    identity.Call
	Receipt bool // receipts are asked for
}

// header is a described request's header fields.
type header map[string][]string

// Values implements identity.Header.
func (h header) Values(name string) []string { return h[textproto.CanonicalMIMEHeaderKey(name)] }

// Described reads a described request. Its path is required, for rules go by it;
// what else it leaves out is as in a GET by nobody.
func (b *Body) Described() (*Described, error) {
	r := &Described{Call: identity.Call{Method: "GET"}}
	h := make(header)
	r.Call.Header = h
	names := []string{"method", "path", "host", "ip", "headers", "attrs", "cost", "receipt"}
	given := false
	err := b.Object(names, func(field int) (err error) {
		switch names[field] {
		case "method":
			r.Call.Method, err = b.method()
		case "path":
			given = true
			err = b.target(&r.Call)
		case "host":
			r.Call.Host, err = b.Text()
		case "ip":
			r.Call.Peer, err = b.Address()
		case "headers":
			err = b.headers(h)
		case "attrs":
			r.Call.Attrs = make(map[string]string)
			err = b.Dictionary(func(name string) (err error) {
				r.Call.Attrs[name], err = b.Text()
				return err
			})
		case "cost":
			r.Call.Cost, err = b.Cost(0)
			r.Call.Peek = r.Call.Cost == 0
		case "receipt":
			r.Receipt, err = b.Truth()
		}
		return err
	})
	if err == nil && !given {
		err = Within("path", Wrong("is missing; describe the request by its path, at least"))
	}
	return r, err
}

func (b *Body) method() (string, error) {
	s, err := b.Text()
	switch {
	case err != nil:
		return "", err
	case s == "":
		return "", Wrong("is empty")
	case !identity.IsToken(s):
		return "", Wrong("is not a method, such as GET or POST")
	}
	return s, nil
}

// target reads a path, which may have a query behind it.
func (b *Body) target(call *identity.Call) error {
	s, err := b.Text()
	if err != nil {
		return err
	}
	if !strings.HasPrefix(s, "/") && s != "*" {
		return Wrong("must begin with /")
	}
	// A # stays in the path, where it is a letter to some servers.
	call.Path, s, _ = strings.Cut(s, "?")
	call.Query, _, _ = strings.Cut(s, "#")
	return nil
}

func (b *Body) headers(h header) error {
	return b.Dictionary(func(name string) error {
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		if _, again := h[canonical]; again {
			return Wrong("is given twice, in another spelling")
		}
		h[canonical] = []string{}
		return b.Array(maxBody, func(int) error {
			v, err := b.Text()
			h[canonical] = append(h[canonical], v)
			return err
		})
	})
}
