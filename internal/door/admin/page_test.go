package admin

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/gate"
	"github.com/weirhq/weir/observe/metrics"
)

func newDoor(t *testing.T) http.Handler {
	t.Helper()
	l, err := weir.New(weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return New(Options{Gate: gate.New(l, nil, nil), Metrics: metrics.New(metrics.Options{})})
}

func ask(h http.Handler, method, target string, more ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	for _, f := range more {
		f(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestThePageIsSmallAndItsOwn(t *testing.T) {
	h := newDoor(t)
	const most = 100_000
	total := 0
	elsewhere := regexp.MustCompile(`(?i)(src|href|url)\s*[=(]\s*["']?(https?:)?//`)
	for _, name := range pageNames() {
		body, err := fs.ReadFile(pageFiles, "page/"+name)
		if err != nil {
			t.Fatal(err)
		}
		total += len(body)
		if m := elsewhere.Find(body); m != nil {
			t.Errorf("%s loads from elsewhere: %s", name, m)
		}
		if regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(| on[a-z]+="| style="`).Match(body) {
			t.Errorf("%s makes HTML of text, or holds a script or a style in an attribute", name)
		}
		if strings.HasSuffix(name, ".html") {
			continue
		}
		w := ask(h, "GET", pagePrefix+name)
		if w.Code != 200 || w.Body.Len() != len(body) || w.Header().Get("Content-Type") == "" {
			t.Errorf("%s: %d, %d of %d bytes, %q", name, w.Code, w.Body.Len(), len(body), w.Header().Get("Content-Type"))
		}
	}
	if total >= most {
		t.Errorf("the page has %d bytes, the bound is %d", total, most)
	}
	w := ask(h, "GET", "/")
	for _, want := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"} {
		if !strings.Contains(w.Header().Get("Content-Security-Policy"), want) {
			t.Errorf("the policy of / lacks %s: %s", want, w.Header().Get("Content-Security-Policy"))
		}
	}
	if strings.Contains(w.Header().Get("Content-Security-Policy"), "unsafe") {
		t.Error("the policy allows something unsafe")
	}
	for _, target := range []string{"/page/", "/page/index.html", "/page/../page.go", "/page/login.html"} {
		if w := ask(h, "GET", target); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", target, w.Code)
		}
	}
	if w := ask(h, "POST", "/"); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST /: %d", w.Code)
	}
}
