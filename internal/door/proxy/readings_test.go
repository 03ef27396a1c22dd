package proxy

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
)

// part is one part of a form, with further lines for its head.
func part(disposition, value string, more ...string) string {
	return "--b\r\nContent-Disposition: " + disposition + "\r\n" + strings.Join(append(more, ""), "\r\n") + "\r\n" + value + "\r\n"
}

// TestBodyAttrsReadInTwoWays: a caller that can show us one account and the upstream
// another has as many balances as it likes. Each of these is read as "victim" by some
// server that people have.
func TestBodyAttrsReadInTwoWays(t *testing.T) {
	decoy := part(`form-data; name="user_name"`, "decoy")
	for _, c := range []struct{ name, kind, body, want string }{
		{"as it should be", form, "user_name=a", "a"},
		{"a dot is a _ to PHP", form, "user_name=decoy&user.name=victim", ""},
		{"so is a space", form, "user_name=decoy&user+name=victim", ""},
		{"and a bracket that nothing closes", form, "user_name=decoy&user[name=victim", ""},
		{"a name ends at a zero byte", form, "user_name=decoy&user_name%00x=victim", ""},
		{"and at a bracket", form, "user_name=decoy&user_name[]=victim", ""},
		{"spaces of other kinds", form, "user_name=decoy&%0Buser_name=victim", ""},
		{"another charset", form + "; charset=utf-16", "user_name=decoy", ""},
		{"EBCDIC", form + "; charset=ibm037", "user_name=decoy", ""},
		{"UTF-8", form + "; charset=UTF-8", "user_name=a", "a"},
		{"UTF-8 without its dash", form + "; charset=utf8", "user_name=a", "a"},

		{"parts as they should be", multi, decoy + "--b--\r\n", "decoy"},
		{"a file beside", multi, decoy + part(`form-data; name="picture"; filename="a.png"`, "png", "Content-Type: image/png") + "--b--\r\n", "decoy"},
		{"a head that cannot be read", multi, decoy + part(`form-data; name=user_name; name=user_name`, "victim") + "--b--\r\n", ""},
		{"no form-data", multi, decoy + part(`attachment; name="user_name"`, "victim") + "--b--\r\n", ""},
		{"two heads", multi, decoy + part(`form-data; name="x"`, "victim", `Content-Disposition: form-data; name="user_name"`) + "--b--\r\n", ""},
		{"a name with an escape", multi, decoy + part(`form-data; name="user\_name"`, "victim") + "--b--\r\n", ""},
		{"a name in the long form", multi, decoy + part(`form-data; name="x"; name*=utf-8''user_name`, "victim") + "--b--\r\n", ""},
		{"a file of that name", multi, part(`form-data; name="user_name"; filename="f"`, "decoy") + "--b--\r\n", ""},
		{"encoded", multi, part(`form-data; name="user_name"`, "dmljdGlt", "Content-Transfer-Encoding: base64") + "--b--\r\n", ""},
		{"encoded as mail is", multi, part(`form-data; name="user_name"`, "victi=6D", "Content-Transfer-Encoding: quoted-printable") + "--b--\r\n", ""},
		{"encoded not at all", multi, part(`form-data; name="user_name"`, "a", "Content-Transfer-Encoding: 8bit") + "--b--\r\n", "a"},
		{"in another charset", multi, part(`form-data; name="user_name"`, "decoy", "Content-Type: text/plain; charset=utf-16") + "--b--\r\n", ""},
		{"in UTF-8", multi, part(`form-data; name="user_name"`, "a", "Content-Type: text/plain; charset=utf-8") + "--b--\r\n", "a"},

		{"a number", "application/json", `{"user_name":42}`, "42"},
		{"with a fraction of nothing", "application/json", `{"user_name":42.0}`, ""},
		{"with an exponent", "application/json", `{"user_name":4.2e1}`, ""},
		{"less than nothing", "application/json", `{"user_name":-42}`, "-42"},
		{"nothing, and less", "application/json", `{"user_name":-0}`, ""},
		{"JSON in another charset", "application/json; charset=utf-16", `{"user_name":"decoy"}`, ""},
		{"more behind the object", "application/json", `{"user_name":"decoy"}{"user_name":"victim"}`, ""},
		{"a line end behind it", "application/json", "{\"user_name\":\"a\"}\r\n", "a"},
		{"not UTF-8", "application/json", "{\"user_name\":\"a\xff\"}", ""},
	} {
		r := httptest.NewRequest("POST", "/", strings.NewReader(c.body))
		r.Header.Set("Content-Type", c.kind)
		attrs := readAttrs(httptest.NewRecorder(), r, []BodyAttr{{Name: "account", Field: "user_name", JSON: strings.Contains(c.kind, "json")}})
		if got := attrs["account"]; got != c.want {
			t.Errorf("%s: %q, not %q", c.name, got, c.want)
		}
	}
	for _, query := range []string{"user.name=victim", "user_name[]=victim", "user_name%00=victim"} {
		r := httptest.NewRequest("POST", "/?"+query, strings.NewReader(fmt.Sprintf("user_name=%s", "decoy")))
		r.Header.Set("Content-Type", form)
		if attrs := readAttrs(httptest.NewRecorder(), r, []BodyAttr{{Name: "account", Field: "user_name"}}); len(attrs) > 0 {
			t.Errorf("?%s: %v", query, attrs)
		}
	}
}
