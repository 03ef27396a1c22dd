package admin

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

const token = "a token that is long enough"

func newLogin(t *testing.T, token string) *login {
	t.Helper()
	h, err := Login(token, newDoor(t), "/open")
	if err != nil {
		t.Fatal(err)
	}
	return h.(*login)
}

func enter(l *login, token string, more ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", "/login", strings.NewReader(url.Values{"token": {token}}.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for _, f := range more {
		f(r)
	}
	w := httptest.NewRecorder()
	l.ServeHTTP(w, r)
	return w
}

func with(cookie *http.Cookie) func(*http.Request) {
	return func(r *http.Request) { r.AddCookie(cookie) }
}

func field(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func session(t *testing.T, l *login) *http.Cookie {
	t.Helper()
	w := enter(l, token)
	cookies := w.Result().Cookies()
	if w.Code != http.StatusSeeOther || len(cookies) != 1 {
		t.Fatalf("%d, %d cookies", w.Code, len(cookies))
	}
	return cookies[0]
}

func TestLogin(t *testing.T) {
	l := newLogin(t, token)
	if w := ask(l, "GET", "/"); w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), `name="token"`) {
		t.Errorf("a stranger at /: %d %s", w.Code, w.Body)
	}
	if w := ask(l, "GET", "/v1/sim/presets"); w.Code != http.StatusUnauthorized || w.Header().Get("WWW-Authenticate") == "" {
		t.Errorf("a stranger at the API: %d", w.Code)
	}
	if w := ask(l, "GET", "/page/style.css"); w.Code != http.StatusOK {
		t.Errorf("the form's style: %d", w.Code)
	}
	if w := enter(l, "another"); w.Code != http.StatusUnauthorized || len(w.Result().Cookies()) != 0 || !strings.Contains(w.Body.String(), "not the token") {
		t.Errorf("a wrong token: %d %s", w.Code, w.Body)
	}
	c := session(t, l)
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Secure || strings.Contains(c.Value, token) {
		t.Errorf("the cookie: %+v", c)
	}
	if w := ask(l, "GET", "/v1/sim/presets", with(c)); w.Code != http.StatusOK {
		t.Errorf("with the cookie: %d", w.Code)
	}
	if w := ask(l, "GET", "/v1/sim/presets", field("Authorization", "Bearer "+token)); w.Code != http.StatusOK {
		t.Errorf("with the token: %d", w.Code)
	}
	if w := enter(l, token, func(r *http.Request) { *r = *r.WithContext(r.Context()); r.TLS = nil }, field("Sec-Fetch-Site", "cross-site")); w.Code != http.StatusForbidden {
		t.Errorf("a login from another site: %d", w.Code)
	}
	w := ask(l, "POST", "/logout", with(c))
	if got := w.Result().Cookies(); w.Code != http.StatusSeeOther || len(got) != 1 || got[0].MaxAge >= 0 {
		t.Errorf("logging out: %d %v", w.Code, got)
	}
}

// A cookie is good for its time, its token and this site alone.
func TestCookiesThatAreNotGood(t *testing.T) {
	l := newLogin(t, token)
	c := session(t, l)
	expiry, mac, _ := strings.Cut(c.Value, ".")
	for name, value := range map[string]string{
		"forged":  expiry + "." + strings.Repeat("0", len(mac)),
		"longer":  "9" + expiry + "." + mac,
		"empty":   "",
		"no mac":  expiry,
		"nothing": ".",
	} {
		if w := ask(l, "GET", "/v1/sim/presets", with(&http.Cookie{Name: c.Name, Value: value})); w.Code != http.StatusUnauthorized {
			t.Errorf("%s: %d", name, w.Code)
		}
	}
	if w := ask(l, "GET", "/v1/sim/presets", with(c), with(c)); w.Code != http.StatusUnauthorized {
		t.Errorf("given twice: %d", w.Code)
	}
	if w := ask(l, "POST", "/v1/explain", with(c), field("Sec-Fetch-Site", "cross-site")); w.Code != http.StatusUnauthorized {
		t.Errorf("from another site: %d", w.Code)
	}
	if w := ask(newLogin(t, "a new token"), "GET", "/v1/sim/presets", with(c)); w.Code != http.StatusUnauthorized {
		t.Errorf("of another token: %d", w.Code)
	}
	later := time.Now().Add(sessionLength + time.Second)
	l.now = func() time.Time { return later }
	if w := ask(l, "GET", "/v1/sim/presets", with(c)); w.Code != http.StatusUnauthorized {
		t.Errorf("after its time: %d", w.Code)
	}
}

func TestGuessingTokensIsLimited(t *testing.T) {
	l := newLogin(t, token)
	codes := map[int]int{}
	for range 15 {
		w := enter(l, "a guess")
		codes[w.Code]++
		if w.Code == http.StatusTooManyRequests && w.Header().Get("Retry-After") == "" {
			t.Error("refused without a time to come back")
		}
	}
	if codes[http.StatusUnauthorized] > 11 || codes[http.StatusTooManyRequests] < 4 {
		t.Errorf("15 guesses: %v", codes)
	}
	if w := enter(l, token, func(r *http.Request) { r.RemoteAddr = "192.0.2.77:1" }); w.Code != http.StatusSeeOther {
		t.Errorf("somebody else with the token: %d", w.Code)
	}
}
