package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestToken(t *testing.T) {
	door := Token("s3cret", http.HandlerFunc(ok), "/healthz")
	for _, c := range []struct {
		path, authorization string
		status              int
	}{
		{"/v1/take", "Bearer s3cret", 200},
		{"/v1/take", "bearer s3cret", 200},
		{"/v1/take", "", 401},
		{"/v1/take", "Bearer", 401},
		{"/v1/take", "Bearer ", 401},
		{"/v1/take", "Bearer s3cre", 401},
		{"/v1/take", "Bearer s3crets", 401},
		{"/v1/take", "Basic s3cret", 401},
		{"/healthz", "", 200},
		{"/healthz/", "", 401},
		{"/v1/../healthz", "", 401},
	} {
		r := httptest.NewRequest("POST", "/", nil)
		r.URL.Path = c.path
		if c.authorization != "" {
			r.Header.Set("Authorization", c.authorization)
		}
		w := httptest.NewRecorder()
		door.ServeHTTP(w, r)
		if w.Code != c.status {
			t.Errorf("%s with %q: %d", c.path, c.authorization, w.Code)
		}
		if strings.Contains(w.Body.String(), "s3cret") {
			t.Errorf("the answer holds the token: %s", w.Body)
		}
		if (w.Code == 401) != (w.Header().Get("WWW-Authenticate") != "") {
			t.Errorf("%d with WWW-Authenticate %q", w.Code, w.Header().Get("WWW-Authenticate"))
		}
	}
}
