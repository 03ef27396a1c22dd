package admin

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/headers"
	"github.com/weirhq/weir/identity"
	"github.com/weirhq/weir/internal/door/api"
)

// A browser has no way to send "Authorization: Bearer" by itself, so whoever
// gives the token in the login form gets a cookie:
//
//	expiry "." HMAC-SHA-256(SHA-256(token), "weir admin session " + expiry)
//
// It is not the token, ends by itself, and ends for everybody with a new token;
// nothing has to be remembered here. It is HttpOnly and SameSite=Strict, and is
// taken from requests of this site alone. Wrong tokens are counted by network,
// by what this program is for.

const (
	sessionCookie = "weir_session"
	sessionLength = 12 * time.Hour
	loginBody     = 4 << 10
)

var loginLimit = weir.PerMinute(30).Burst(10)

// Login puts the token in front of the door's handler: as a bearer token, or as
// the cookie of who has logged in. The page's files, and what is in open, need
// none. It is safe for concurrent use.
func Login(token string, next http.Handler, open ...string) (http.Handler, error) {
	tries, err := weir.New(weir.Options{Store: weir.NewMemory(weir.MemoryOptions{MaxBytes: 1 << 20})})
	if err != nil {
		return nil, err
	}
	l := &login{secret: sha256.Sum256([]byte(token)), tries: tries, now: time.Now, next: next}
	l.bearer = api.Token(token, next, append(open, loginPath)...)
	return l, nil
}

const (
	loginPath  = "/login"
	logoutPath = "/logout"
)

type login struct {
	secret       [sha256.Size]byte
	tries        *weir.Limiter
	now          func() time.Time
	next, bearer http.Handler
	origins      http.CrossOriginProtection
}

// ServeHTTP implements http.Handler.
func (l *login) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	known, looks := l.known(r), r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case r.URL.Path == loginPath && r.Method == http.MethodPost:
		l.enter(w, r)
	case r.URL.Path == logoutPath && r.Method == http.MethodPost:
		l.leave(w, r)
	case known && looks && r.URL.Path == "/":
		showSession(w)
	case known, strings.HasPrefix(r.URL.Path, pagePrefix):
		l.next.ServeHTTP(w, r)
	case r.URL.Path == "/" && r.Header.Get("Authorization") == "" && looks:
		showLogin(w, http.StatusUnauthorized, "")
	default:
		l.bearer.ServeHTTP(w, r)
	}
}

// known reports whether the request carries the cookie of who has logged in.
func (l *login) known(r *http.Request) bool {
	cookies := r.CookiesNamed(sessionCookie)
	if len(cookies) != 1 || l.origins.Check(r) != nil {
		return false
	}
	expiry, _, ok := strings.Cut(cookies[0].Value, ".")
	until, err := strconv.ParseInt(expiry, 10, 64)
	return ok && err == nil && l.now().Unix() < until &&
		subtle.ConstantTimeCompare([]byte(cookies[0].Value), []byte(l.session(expiry))) == 1
}

func (l *login) session(expiry string) string {
	mac := hmac.New(sha256.New, l.secret[:])
	mac.Write([]byte("weir admin session " + expiry))
	return expiry + "." + hex.EncodeToString(mac.Sum(nil))
}

func (l *login) enter(w http.ResponseWriter, r *http.Request) {
	if l.origins.Check(r) != nil {
		api.Refuse(w, api.Problem{Status: http.StatusForbidden, Detail: "requests from other sites are refused"})
		return
	}
	caller := "local"
	if peer, _ := identity.ParsePeer(r.RemoteAddr); peer.IsValid() {
		caller = identity.NetworkOf(peer, identity.DefaultIPv4Prefix, identity.DefaultIPv6Prefix).String()
	}
	d, err := l.tries.Allow(r.Context(), caller, loginLimit)
	if err != nil || !d.Allowed {
		headers.WriteWait(w.Header(), d.RetryAfter)
		showLogin(w, http.StatusTooManyRequests, "Too many tries. Wait a few seconds.")
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, loginBody)
	given := sha256.Sum256([]byte(r.PostFormValue("token")))
	if subtle.ConstantTimeCompare(given[:], l.secret[:]) != 1 {
		showLogin(w, http.StatusUnauthorized, "That is not the token.")
		return
	}
	expiry := strconv.FormatInt(l.now().Add(sessionLength).Unix(), 10)
	l.setCookie(w, r, l.session(expiry), int(sessionLength/time.Second))
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (l *login) leave(w http.ResponseWriter, r *http.Request) {
	if l.origins.Check(r) != nil {
		api.Refuse(w, api.Problem{Status: http.StatusForbidden, Detail: "requests from other sites are refused"})
		return
	}
	l.setCookie(w, r, "", -1)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (l *login) setCookie(w http.ResponseWriter, r *http.Request, value string, age int) {
	http.SetCookie(w, &http.Cookie{
		Name: sessionCookie, Value: value, Path: "/", MaxAge: age,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil,
	})
	w.Header().Set("Cache-Control", "no-store")
}
