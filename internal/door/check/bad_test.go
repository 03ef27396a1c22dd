package check

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"
)

// bad is bodies with one fault each, the path of the fault and words of its
// message. They seed the fuzzing too.
var bad = []struct{ name, path, body, field, message string }{
	{"nothing", "/v1/take", ``, "", "not one JSON value"},
	{"no object", "/v1/take", `[]`, "", "must be an object"},
	{"null", "/v1/take", `null`, "", "must be an object"},
	{"half", "/v1/take", `{"key":"a"`, "", "unexpected end"},
	{"two values", "/v1/take", `{"key":"a","limit":"1/s"}{}`, "", "after top-level value"},
	{"trailing text", "/v1/take", `{"key":"a","limit":"1/s"} x`, "", "after top-level value"},
	{"trailing comma", "/v1/take", `{"key":"a","limit":"1/s",}`, "", "invalid character"},
	{"a comment", "/v1/take", `{"key":"a"/**/,"limit":"1/s"}`, "", "invalid character"},
	{"byte order mark", "/v1/take", "\ufeff" + `{"key":"a","limit":"1/s"}`, "", "invalid character"},
	{"broken UTF-8", "/v1/take", "{\"key\":\"\xff\",\"limit\":\"1/s\"}", "", "not valid UTF-8"},
	{"half a surrogate pair", "/v1/take", `{"key":"\ud800","limit":"1/s"}`, "key", "surrogate"},
	{"the other half", "/v1/take", `{"key":"\udc00\ud800","limit":"1/s"}`, "key", "surrogate"},
	{"two first halves", "/v1/take", `{"key":"\ud800\ud800","limit":"1/s"}`, "key", "surrogate"},
	{"unknown field", "/v1/take", `{"key":"a","limit":"1/s","burst":1}`, "burst", "no field here"},
	{"field in capitals", "/v1/take", `{"Key":"a","limit":"1/s"}`, "Key", "no field here"},
	{"field twice", "/v1/take", `{"key":"a","key":"a","limit":"1/s"}`, "key", "given twice"},
	{"field twice, once escaped", "/v1/take", `{"key":"a","\u006bey":"b","limit":"1/s"}`, "key", "given twice"},
	{"field twice, deep", "/v1/take", `{"charges":[{"key":"a","limit":"1/s"},{"key":"b","limit":"1/s","limit":"2/s"}]}`, "charges[1].limit", "given twice"},
	{"no key", "/v1/take", `{"limit":"1/s"}`, "key", "is missing"},
	{"no limit", "/v1/take", `{"key":"a"}`, "limit", "is missing"},
	{"empty key", "/v1/take", `{"key":"","limit":"1/s"}`, "key", "is empty"},
	{"long key", "/v1/take", `{"key":"` + strings.Repeat("é", 512) + `x","limit":"1/s"}`, "key", "1025 bytes"},
	{"key of another type", "/v1/take", `{"key":7,"limit":"1/s"}`, "key", "must be a string"},
	{"null key", "/v1/take", `{"key":null,"limit":"1/s"}`, "key", "must be a string"},
	{"near miss", "/v1/take", `{"key":"a","limit":"10r/s"}`, "limit", `did you mean \"10/s\"`},
	{"limit of another type", "/v1/take", `{"key":"a","limit":10}`, "limit", "must be a limit"},
	{"limit without rate", "/v1/take", `{"key":"a","limit":{"burst":1}}`, "limit.rate", "is missing"},
	{"limit with an unknown word", "/v1/take", `{"key":"a","limit":{"rate":"1/s","bust":1}}`, "limit.bust", "no field here"},
	{"limit with an option in a value", "/v1/take", `{"key":"a","limit":{"rate":"1/s","name":"x burst=9"}}`, "limit.name", "one word"},
	{"limit with a broken burst", "/v1/take", `{"key":"a","limit":{"rate":"1/s","burst":"9"}}`, "limit.burst", "whole number"},
	{"two limits on one balance", "/v1/take", `{"charges":[{"key":"a","limit":"1/s"},{"key":"a","limit":"2/s"}]}`, "charges[1].limit", "same balance"},
	{"fraction", "/v1/take", `{"key":"a","limit":"1/s","cost":1.5}`, "cost", "whole number"},
	{"whole fraction", "/v1/take", `{"key":"a","limit":"1/s","cost":1.0}`, "cost", "whole number"},
	{"exponent", "/v1/take", `{"key":"a","limit":"1/s","cost":1e3}`, "cost", "whole number"},
	{"number in a string", "/v1/take", `{"key":"a","limit":"1/s","cost":"1"}`, "cost", "whole number"},
	{"negative", "/v1/take", `{"key":"a","limit":"1/s","cost":-1}`, "cost", "must lie between 0"},
	{"2^53", "/v1/take", `{"key":"a","limit":"1/s","cost":9007199254740992}`, "cost", "must lie between 0"},
	{"beyond int64", "/v1/take", `{"key":"a","limit":"1/s","cost":99999999999999999999}`, "cost", "too large"},
	{"receipt of another type", "/v1/take", `{"key":"a","limit":"1/s","receipt":1}`, "receipt", "true or false"},
	{"both forms", "/v1/take", `{"key":"a","charges":[{"key":"a","limit":"1/s"}]}`, "key", "does not go with charges"},
	{"no charges", "/v1/take", `{"charges":[]}`, "charges", "at least one charge"},
	{"charges of another type", "/v1/take", `{"charges":{}}`, "charges", "must be an array"},
	{"a charge of another type", "/v1/take", `{"charges":[{"key":"a","limit":"1/s"},5]}`, "charges[1]", "must be an object"},
	{"33 charges", "/v1/take", `{"charges":[` + strings.Repeat(`{"key":"a","limit":"1/s"},`, 32) + `{"key":"a","limit":"1/s"}]}`, "charges", "more than 32"},
	{"a receipt inside a charge", "/v1/take", `{"charges":[{"key":"a","limit":"1/s","receipt":true}]}`, "charges[0].receipt", "no field here"},
	{"peek", "/v1/peek", `{"key":"a","limit":"1/s","cost":-1}`, "cost", "must lie between"},
	{"batch without bills", "/v1/take/batch", `{}`, "bills", "is missing"},
	{"bills of another type", "/v1/take/batch", `{"bills":{}}`, "bills", "must be an array"},
	{"bills twice", "/v1/take/batch", `{"bills":[{"key":"a","limit":"1/s"}],"bills":[]}`, "bills", "given twice"},
	{"1,001 bills", "/v1/take/batch", `{"bills":[` + strings.Repeat(`{"key":"a","limit":"1/s"},`, 1000) + `{"key":"a","limit":"1/s"}]}`, "bills", "more than 1000"},
	{"refund without receipt", "/v1/refund", `{"cost":1}`, "receipt", "is missing"},
	{"refund of nothing", "/v1/refund", `{"receipt":"x","cost":0}`, "cost", "must lie between 1"},
	{"refund of a broken receipt", "/v1/refund", `{"receipt":"AQ"}`, "receipt", "not a receipt"},
	{"refund of a long receipt", "/v1/refund", `{"receipt":"` + strings.Repeat("A", 9000) + `"}`, "receipt", "not a receipt"},
	{"check of a relative path", "/v1/check", `{"path":"a"}`, "path", "must begin with /"},
	{"check of nothing", "/v1/check", `{}`, "path", "is missing"},
	{"check without a path", "/v1/check", `{"ip":"192.0.2.1","method":"POST"}`, "path", "is missing"},
	{"check of nothing, at a cost", "/v1/check", `{"cost":2,"receipt":true}`, "path", "is missing"},
	{"check of an empty path", "/v1/check", `{"path":""}`, "path", "must begin with /"},
	{"check without method", "/v1/check", `{"path":"/","method":""}`, "method", "is empty"},
	{"check with two words for a method", "/v1/check", `{"path":"/","method":"GET /"}`, "method", "not a method"},
	{"check with a method in another script", "/v1/check", `{"path":"/","method":"GÉT"}`, "method", "not a method"},
	{"check with a port", "/v1/check", `{"ip":"192.0.2.1:80"}`, "ip", "IP address"},
	{"check with a bare header", "/v1/check", `{"headers":{"X-A":"1"}}`, "headers.X-A", "must be an array"},
	{"check with a broken header", "/v1/check", `{"headers":{"X-A":["1",2]}}`, "headers.X-A[1]", "must be a string"},
	{"check with a header twice", "/v1/check", `{"headers":{"X-A":["1"],"x-a":["2"]}}`, "headers.x-a", "given twice"},
	{"check with an attribute twice", "/v1/check", `{"attrs":{"a b":"1","a b":"2"}}`, `attrs."a b"`, "given twice"},
	{"check with a fractional cost", "/v1/check", `{"cost":0.5}`, "cost", "whole number"},
	{"check with a clock", "/v1/check", `{"now":1}`, "now", "no field here"},
	{"take with a clock", "/v1/take", `{"key":"a","limit":"1/s","now_us":1}`, "now_us", "no field here"},
}

func TestBadBodies(t *testing.T) {
	for _, c := range bad {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, nil, nil)
			w := b.post(c.path, c.body)
			p := decode[struct{ Type, Title, Detail, Field string }](t, w)
			if w.Code != http.StatusBadRequest || p.Field != c.field || !strings.Contains(w.Body.String(), c.message) {
				t.Errorf("%d %s\nwant 400, field %q and %q", w.Code, w.Body, c.field, c.message)
			}
			if p.Type == "" || p.Title == "" || w.Header().Get("Content-Type") != "application/problem+json" {
				t.Errorf("no problem: %v %s", w.Header(), w.Body)
			}
			if n := b.store.taken.Load(); n != 0 {
				t.Errorf("%d bills were charged", n)
			}
		})
	}
}

// FuzzBody: no body makes a handler panic or answer with anything but its
// statuses, and nothing is charged by a body that is refused. What is accepted
// means the same to encoding/json.
func FuzzBody(f *testing.F) {
	paths := []string{"/v1/take", "/v1/peek", "/v1/take/batch", "/v1/refund", "/v1/check"}
	for _, c := range bad {
		for i, path := range paths {
			if c.path == path {
				f.Add(i, []byte(c.body))
			}
		}
	}
	f.Add(0, []byte(`{"key":"\ud83d\ude00","limit":{"rate":"5/s","burst":3},"cost":2,"receipt":true}`))
	f.Add(2, []byte(`{"bills":[{"key":"a","limit":"1/s"},{"x":[{}]},{"charges":[{"key":"a","limit":"1/s"}]}]}`))
	f.Fuzz(func(t *testing.T, which int, body []byte) {
		path := paths[uint(which)%uint(len(paths))]
		b := newBench(t, nil, nil)
		r := httptest.NewRequest("POST", path, strings.NewReader(string(body)))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		b.door.ServeHTTP(w, r)
		taken := b.store.taken.Load()
		switch w.Code {
		case 200, 429, 503:
		case 400, 413:
			if taken != 0 {
				t.Errorf("%d and charged", w.Code)
			}
			return
		default:
			t.Fatalf("status %d", w.Code)
		}
		if !utf8.Valid(body) || !json.Valid(body) {
			t.Fatal("accepted what is no JSON")
		}
		if path != "/v1/take" {
			return
		}
		var seen struct {
			Key     string
			Cost    *int64
			Charges []struct{ Key string }
		}
		if err := json.Unmarshal(body, &seen); err != nil {
			t.Fatalf("accepted what encoding/json refuses: %v", err)
		}
		if seen.Key == "" && len(seen.Charges) == 0 {
			t.Error("accepted without a key")
		}
	})
}

// A bad bill of a batch is named by its field, or as a whole.
func TestBadBillsAreNamed(t *testing.T) {
	w := newBench(t, nil, nil).post("/v1/take/batch", `{"bills":[{"key":"a","limit":"1/s"},5,{"charges":[]},{"key":"a"}]}`)
	var got struct {
		Decisions []struct{ Error, Field string }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || len(got.Decisions) != 4 {
		t.Fatal(err, w.Body)
	}
	for i, field := range []string{"", "bills[1]", "charges", "limit"} {
		if got.Decisions[i].Field != field {
			t.Errorf("bill %d: field %q, not %q", i, got.Decisions[i].Field, field)
		}
	}
}
