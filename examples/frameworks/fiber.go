package frameworks

import (
	"net/netip"

	"github.com/gofiber/fiber/v3"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/gate"
	"github.com/weirhq/weir/headers"
	"github.com/weirhq/weir/identity"
)

// Fiber returns a middleware for fiber, whose requests are not those of net/http:
// so it decides a bill itself and writes the answer's fields. This is how any
// other framework is served.
//
//	format, err := headers.New(headers.Options{})
//	key, err := frameworks.FiberIP(netip.MustParsePrefix("10.0.0.0/8"))
//	app.Use(frameworks.Fiber(l, format, key, weir.PerMinute(100)))
//
// An empty key is refused as bad input: give every request one. A key may be a
// text that fiber uses again, such as that of c.Get. A leaky bucket admits what
// need not wait.
func Fiber(l *weir.Limiter, format *headers.Format, key func(fiber.Ctx) string, limits ...weir.Limit) fiber.Handler {
	return func(c fiber.Ctx) error {
		bill := weir.Bill{}
		name := key(c)
		for _, limit := range limits {
			bill.Charges = append(bill.Charges, limit.Charge(name))
		}
		gate.BoundWaits(bill.Charges, 0)
		if err := l.Decide(c.Context(), &bill); err != nil {
			return err // bad input, or the end of the request or of the limiter
		}
		answer := format.Answer(&bill, nil)
		for field, value := range answer.Fields() {
			c.Set(field, value)
		}
		if bill.Allowed {
			return c.Next()
		}
		contentType, body := answer.Body()
		c.Set(fiber.HeaderContentType, contentType)
		return c.Status(answer.Status).Send(body)
	}
}

// FiberIP keys by the client's address as httplimit.ByIP does: it believes the
// proxies in trusted and nobody else, and a /64 of IPv6 is one client. c.IP is not
// enough for that: behind a proxy it takes the first address of X-Forwarded-For,
// which is the client's own to choose, and of IPv6 each address is another client.
func FiberIP(trusted ...netip.Prefix) (func(fiber.Ctx) string, error) {
	resolver, err := identity.NewResolver(identity.Config{ClientIP: identity.ClientIP{TrustedProxies: trusted}})
	if err != nil {
		return nil, err
	}
	return func(c fiber.Ctx) string {
		call := identity.Call{Header: fiberHeader{c}}
		call.Peer, call.Unix = identity.ParsePeer(c.RequestCtx().RemoteAddr().String())
		caller := resolver.Locate(&call)
		if !caller.Network.IsValid() {
			return "no address" // a unix socket whose proxy says nothing
		}
		return string(identity.AppendNetwork([]byte("ip:"), caller.Network))
	}, nil
}

// fiberHeader gives the fields of a request to identity, which reads more than one
// line of a field.
type fiberHeader struct{ fiber.Ctx }

func (h fiberHeader) Values(name string) (values []string) {
	for _, v := range h.Request().Header.PeekAll(name) {
		values = append(values, string(v))
	}
	return values
}
