package proxy

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/identity"
	"github.com/weirhq/weir/policy"
)

const (
	form      = "application/x-www-form-urlencoded"
	multi     = "multipart/form-data; boundary=b"
	multiBody = "--b\r\nContent-Disposition: form-data; name=\"email\"\r\n\r\n%s\r\n--b--\r\n"
)

func TestBodyAttrs(t *testing.T) {
	long := strings.Repeat("x", attrRoom)
	for _, c := range []struct{ name, kind, body, want string }{
		{"a form", form, "password=p&email=a%40b.example", "a@b.example"},
		{"a form, with charset", form + "; charset=utf-8", "email=a", "a"},
		{"a field given twice", form, "email=a&email=b", ""},
		{"a field given twice in another spelling", form, "email=a&%65mail=b", ""},
		{"a form that cannot be read", form, "email=%zz", ""},
		{"a form with a semicolon", form, "email=a;email=b", ""},
		{"no such field", form, "mail=a", ""},
		{"nothing", form, "", ""},
		{"a field given twice in another case", form, "email=a&EMAIL=b", ""},
		{"a field given twice, with a space that some take off", form, "email=a&+email=b", ""},
		{"a form in parts", multi, fmt.Sprintf(multiBody, "a"), "a"},
		{"parts twice", multi, strings.TrimSuffix(fmt.Sprintf(multiBody, "a"), "--\r\n") + "\r\n" + strings.TrimPrefix(fmt.Sprintf(multiBody, "b"), "--b\r\n"), ""},
		{"parts cut off", multi, "--b\r\nContent-Disposition: form-data; name=\"email\"\r\n\r\na", ""},
		{"parts without boundary", "multipart/form-data", fmt.Sprintf(multiBody, "a"), ""},
		{"JSON", "application/json", `{"p":{"email":"x"},"email":"a"}`, "a"},
		{"JSON by another name", "application/vnd.login+json", `{"email":"a"}`, "a"},
		{"a number", "application/json", `{"email":12345678901234567890}`, "12345678901234567890"},
		{"no text", "application/json", `{"email":["a"]}`, ""},
		{"JSON twice", "application/json", `{"email":"a","email":"b"}`, ""},
		{"JSON twice, spelled with escapes", "application/json", `{"email":"a","\u0065mail":"b"}`, ""},
		{"JSON twice, in another case", "application/json", `{"email":"a","EMAIL":"b"}`, ""},
		{"JSON cut off", "application/json", `{"email":"a","x":`, ""},
		{"JSON without its end", "application/json", `{"email":"a"`, ""},
		{"a list", "application/json", `[{"email":"a"}]`, ""},
		{"only inside", "application/json", `{"user":{"email":"a"}}`, ""},
		{"text", "text/plain", "email=a", ""},
		{"no type", "", "email=a", ""},
		{"up to the bound", form, "email=a&x=" + long[:attrRoom-10], "a"},
		{"over the bound", form, "email=a&x=" + long[:attrRoom-9], ""},
		{"JSON over the bound", "application/json", `{"email":"a","x":"` + long + `"}`, ""},
	} {
		for _, streamed := range []bool{false, true} {
			var body io.Reader = strings.NewReader(c.body)
			if streamed {
				body = io.MultiReader(body) // of no known length
			}
			r := httptest.NewRequest("POST", "/", body)
			if c.kind != "" {
				r.Header.Set("Content-Type", c.kind)
			}
			attrs := readAttrs(httptest.NewRecorder(), r, []BodyAttr{{Name: "account", Field: "email"}, {Name: "account", Field: "email", JSON: true}})
			if got := attrs["account"]; got != c.want {
				t.Errorf("%s: %q, not %q", c.name, got, c.want)
			}
			if rest, err := io.ReadAll(r.Body); err != nil || string(rest) != c.body {
				t.Errorf("%s: %d bytes are left of %d, %v", c.name, len(rest), len(c.body), err)
			}
		}
	}
}

// TestBodyAttrsInTheQueryToo: many upstreams read the query first, or the query and
// the body as one, so a field that both may name is nobody's.
func TestBodyAttrsInTheQueryToo(t *testing.T) {
	for query, want := range map[string]string{
		"":                "a",
		"x=email":         "a",
		"e-mail=b":        "a",
		"email=b":         "",
		"email=a":         "",
		"email":           "",
		"x=1&%65mail=b":   "",
		"EMAIL=b":         "",
		"%20email=b":      "",
		"x=%zz":           "",
		"x=1;email=b":     "",
		"x=1&email=b&x=2": "",
	} {
		for kind, body := range map[string]string{form: "email=a", multi: fmt.Sprintf(multiBody, "a"), "application/json": `{"email":"a"}`} {
			r := httptest.NewRequest("POST", "/login?"+query, strings.NewReader(body))
			r.Header.Set("Content-Type", kind)
			attrs := readAttrs(httptest.NewRecorder(), r, []BodyAttr{{Name: "account", Field: "email", JSON: kind == "application/json"}})
			if got := attrs["account"]; got != want {
				t.Errorf("%s with ?%s: %q, not %q", kind, query, got, want)
			}
		}
	}
}

// TestBodyAttrsUnread: what cannot have attributes is not read before it is
// passed on, and so nor is what nobody asked for.
func TestBodyAttrsUnread(t *testing.T) {
	account := []BodyAttr{{Name: "account", Field: "email"}}
	for name, change := range map[string]func(*http.Request) []BodyAttr{
		"not asked for": func(*http.Request) []BodyAttr { return nil },
		"compressed":    func(r *http.Request) []BodyAttr { r.Header.Set("Content-Encoding", "gzip"); return account },
		"too long":      func(r *http.Request) []BodyAttr { r.ContentLength = attrRoom + 1; return account },
		"two types":     func(r *http.Request) []BodyAttr { r.Header.Add("Content-Type", form); return account },
	} {
		r := httptest.NewRequest("POST", "/", unreadable{t})
		r.Header.Set("Content-Type", form)
		if attrs := readAttrs(httptest.NewRecorder(), r, change(r)); len(attrs) != 0 {
			t.Errorf("%s: %v", name, attrs)
		}
	}
}

type unreadable struct{ t *testing.T }

func (u unreadable) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}

// TestLoginByAccount: logins are limited by account, whatever address they come
// from and however the account is spelled, and the upstream gets the body whole.
func TestLoginByAccount(t *testing.T) {
	part, err := identity.ParsePart("fold:attr:account")
	if err != nil {
		t.Fatal(err)
	}
	limit, err := weir.ParseLimit("2/h")
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.Compile(policy.Options{Rules: []policy.Rule{{Name: "login", Key: []identity.Part{part}, Limit: limit}}})
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, settings{policy: p, options: Options{Attrs: []BodyAttr{{Name: "account", Field: "email"}, {Name: "account", Field: "email", JSON: true}}}},
		func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%s %v %d", body, err, r.ContentLength)
		})
	for i, body := range []string{"email=a%40b&x=1", `{"email":" A@B "}`, "email=a@b"} {
		kind := form
		if body[0] == '{' {
			kind = "application/json"
		}
		w, got := b.do(t, "POST", "/login", strings.NewReader(body), "Content-Type", kind)
		if want := map[bool]int{true: 200, false: 429}[i < 2]; w.StatusCode != want {
			t.Errorf("%s: %d", body, w.StatusCode)
		}
		if want := fmt.Sprintf("%s <nil> %d", body, len(body)); i < 2 && got != want {
			t.Errorf("the upstream got %q, not %q", got, want)
		}
	}
	if w, _ := b.do(t, "POST", "/login", strings.NewReader("email=c"), "Content-Type", form); w.StatusCode != 200 {
		t.Errorf("another account: %d", w.StatusCode)
	}
}

func TestParseBodyAttr(t *testing.T) {
	if a, err := ParseBodyAttr("account=json:user:mail"); err != nil || a != (BodyAttr{"account", true, "user:mail"}) {
		t.Errorf("%v %v", a, err)
	}
	for _, s := range []string{"", "account", "account=email", "=form:email", "account=form:", "account=xml:email", "account=form"} {
		if a, err := ParseBodyAttr(s); err == nil {
			t.Errorf("%q is %v", s, a)
		}
	}
}

// deadlines is a door that notes the deadline it was left with.
type deadlines struct {
	http.ResponseWriter
	set  int
	read time.Time
}

// SetReadDeadline is for http.ResponseController.
func (d *deadlines) SetReadDeadline(at time.Time) error {
	d.set, d.read = d.set+1, at
	return nil
}

// TestNoDeadlineStays: the one for the beginning of a body is taken back, whether the
// body ends there or not. It would end what comes after.
func TestNoDeadlineStays(t *testing.T) {
	for _, body := range []string{"email=a", "email=a&x=" + strings.Repeat("x", 2*attrRoom)} {
		r := httptest.NewRequest("POST", "/", io.MultiReader(strings.NewReader(body)))
		r.Header.Set("Content-Type", form)
		d := &deadlines{ResponseWriter: httptest.NewRecorder()}
		readAttrs(d, r, []BodyAttr{{Name: "account", Field: "email"}})
		if d.set < 2 || !d.read.IsZero() {
			t.Errorf("%d bytes: set %d times, at last to %v", len(body), d.set, d.read)
		}
	}
}
