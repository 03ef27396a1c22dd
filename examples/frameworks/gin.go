package frameworks

import (
	"net/http"

	"github.com/gin-gonic/gin"
)

// Gin makes a middleware of httplimit one of gin:
//
//	router.Use(frameworks.Gin(httplimit.Middleware(l, httplimit.ByIP(), weir.PerMinute(100))))
//
// Who is denied is answered, and no handler behind it runs.
func Gin(limit func(http.Handler) http.Handler) gin.HandlerFunc {
	return func(c *gin.Context) {
		admitted := false
		limit(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			admitted, c.Request = true, r
		})).ServeHTTP(c.Writer, c.Request)
		if !admitted {
			c.Abort()
		}
	}
}
