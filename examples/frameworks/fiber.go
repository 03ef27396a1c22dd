package frameworks

import (
	"github.com/gofiber/fiber/v3"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/gate"
	"github.com/weirhq/weir/headers"
)

// Fiber returns a middleware for fiber, whose requests are not those of net/http:
// so it decides a bill itself and writes the answer's fields. This is how any
// other framework is served.
//
//	format, err := headers.New(headers.Options{})
//	app.Use(frameworks.Fiber(l, format, func(c fiber.Ctx) string { return "ip:" + c.IP() }, weir.PerMinute(100)))
//
// Behind a proxy c.IP believes what fiber's TrustProxy says. An empty key is
// refused as bad input: give every request one. A leaky bucket admits what need
// not wait.
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
