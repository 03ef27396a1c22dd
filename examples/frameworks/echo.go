package frameworks

import (
	"net/http"

	"github.com/labstack/echo/v5"
)

// Echo makes a middleware of httplimit one of echo. There is nothing to it:
//
//	e.Use(frameworks.Echo(httplimit.Middleware(l, httplimit.ByIP(), weir.PerMinute(100))))
func Echo(limit func(http.Handler) http.Handler) echo.MiddlewareFunc {
	return echo.WrapMiddleware(limit)
}
