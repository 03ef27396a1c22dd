package frameworks

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/gofiber/fiber/v3"
	"github.com/labstack/echo/v5"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/headers"
	"github.com/weirhq/weir/httplimit"
)

// held asks twice for what is admitted and once for what is not.
func held(t *testing.T, ask func(*http.Request) *http.Response, ran *int) {
	t.Helper()
	for i, left := range []string{"1", "0", "0"} {
		w := ask(httptest.NewRequest("GET", "/x", nil))
		body, err := io.ReadAll(w.Body)
		if err != nil || w.Body.Close() != nil {
			t.Fatal(err)
		}
		want, text := 200, "hello"
		if i == 2 {
			want, text = 429, "quota-exceeded"
			if wait, err := strconv.Atoi(w.Header.Get("Retry-After")); err != nil || wait < 1 {
				t.Errorf("Retry-After %q", w.Header.Get("Retry-After"))
			}
			if kind := w.Header.Get("Content-Type"); kind != headers.ProblemType {
				t.Errorf("Content-Type %q", kind)
			}
		}
		if w.StatusCode != want || !strings.Contains(string(body), text) || w.Header.Get("RateLimit-Remaining") != left || !strings.HasPrefix(w.Header.Get("RateLimit"), `"default";r=`+left) {
			t.Errorf("request %d: %d %v %q", i, w.StatusCode, w.Header, body)
		}
	}
	if *ran != 2 {
		t.Errorf("the handler ran %d times", *ran)
	}
}

func limiter(t *testing.T) *weir.Limiter {
	t.Helper()
	l, err := weir.New(weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// serve asks a handler of net/http.
func serve(h http.Handler) func(*http.Request) *http.Response {
	return func(r *http.Request) *http.Response {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Result()
	}
}

func TestGin(t *testing.T) {
	gin.SetMode(gin.ReleaseMode)
	ran, router := 0, gin.New()
	router.Use(Gin(httplimit.Middleware(limiter(t), httplimit.ByIP(), weir.PerMinute(2))))
	router.GET("/x", func(c *gin.Context) { ran++; c.String(200, "hello") })
	held(t, serve(router), &ran)
}

func TestEcho(t *testing.T) {
	ran, e := 0, echo.New()
	e.Use(Echo(httplimit.Middleware(limiter(t), httplimit.ByIP(), weir.PerMinute(2))))
	e.GET("/x", func(c *echo.Context) error { ran++; return c.String(200, "hello") })
	held(t, serve(e), &ran)
}

func TestFiber(t *testing.T) {
	format, err := headers.New(headers.Options{})
	if err != nil {
		t.Fatal(err)
	}
	key, err := FiberIP()
	if err != nil {
		t.Fatal(err)
	}
	ran, app := 0, fiber.New()
	app.Use(Fiber(limiter(t), format, key, weir.PerMinute(2)))
	app.Get("/x", func(c fiber.Ctx) error { ran++; return c.SendString("hello") })
	held(t, func(r *http.Request) *http.Response {
		w, err := app.Test(r)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}, &ran)
}

// TestFiberTellsClientsApart: behind a proxy nobody chooses an address, and a network
// of IPv6 is one client.
func TestFiberTellsClientsApart(t *testing.T) {
	format, err := headers.New(headers.Options{})
	if err != nil {
		t.Fatal(err)
	}
	key, err := FiberIP(netip.MustParsePrefix("127.0.0.1/32"))
	if err != nil {
		t.Fatal(err)
	}
	app := fiber.New(fiber.Config{ // what c.IP goes by
		TrustProxy: true, ProxyHeader: "X-Forwarded-For", EnableIPValidation: true,
		TrustProxyConfig: fiber.TrustProxyConfig{Proxies: []string{"127.0.0.1"}},
	})
	app.Use(Fiber(limiter(t), format, key, weir.PerMinute(1)))
	app.Get("/x", func(c fiber.Ctx) error { return c.SendString("hello") })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() {
		if err := app.Listener(l, fiber.ListenConfig{DisableStartupMessage: true}); err != nil {
			t.Error(err)
		}
	})
	defer served.Wait()
	defer func() { _ = app.Shutdown() }() // what is wrong with it Listener says
	for _, one := range []struct {
		from   string
		status int
	}{
		{"198.51.100.1, 203.0.113.9", 200},
		{"198.51.100.2, 203.0.113.9", 429}, // an address of its own choice
		{"198.51.100.1, 203.0.113.8", 200},
		{"2001:db8::1", 200},
		{"2001:db8::2", 429},
		{"2001:db8:0:1::1", 200},
	} {
		r, err := http.NewRequest("GET", "http://"+l.Addr().String()+"/x", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Forwarded-For", one.from)
		r.Close = true
		w, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if w.StatusCode != one.status || w.Body.Close() != nil {
			t.Errorf("%s: %d, want %d", one.from, w.StatusCode, one.status)
		}
	}
}
