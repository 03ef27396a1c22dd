package headers_test

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/headers"
)

// vector is a line of the header vectors: a field to parse, or a dialect.
type vector struct {
	ID, Kind, Dialect, Header, Value string

	Expect []json.RawMessage
	Policy *struct {
		Name   string
		Limit  int64
		Window int64 `json:"window_s"`
	}
	State struct {
		Remaining int64
		Reset     int64 `json:"reset_s"`
		Denied    bool
	}
	Headers map[string]string
}

// vectors reads the copy in testdata, and the shared file where it is there, so
// that cases added to it are run.
func vectors(t *testing.T) map[string]vector {
	t.Helper()
	all := map[string]vector{}
	for _, path := range []string{filepath.Join("testdata", "vectors.jsonl"), filepath.Join("..", "..", "shared", "vectors", "headers.jsonl")} {
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) && len(all) > 0 {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			var v vector
			if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
				t.Fatal(err)
			}
			all[v.ID] = v
		}
	}
	return all
}

func TestParseVectors(t *testing.T) {
	parsed := 0
	for id, v := range vectors(t) {
		if v.Kind != "parse" {
			continue
		}
		parsed++
		list, err := headers.ParseList([]string{v.Value})
		if err != nil || len(list) != len(v.Expect) {
			t.Errorf("%s: %v, %d members, want %d", id, err, len(list), len(v.Expect))
			continue
		}
		for i, raw := range v.Expect {
			var name string
			var params map[string]any
			if err := json.Unmarshal(raw, &[]any{&name, &params}); err != nil {
				t.Fatal(err)
			}
			if list[i].Name != name || len(list[i].Params) != len(params) {
				t.Errorf("%s: %+v, want %s %v", id, list[i], name, params)
			}
			for _, p := range list[i].Params {
				var got, want any = p.Value, params[p.Key]
				switch value := p.Value.(type) {
				case int64:
					got = float64(value)
				case []byte: // the draft's own example has stray bits at its end
					text, _ := params[p.Key+"_b64"].(string)
					bytes, err := base64.StdEncoding.DecodeString(text)
					if err != nil {
						t.Fatal(err)
					}
					got, want = string(value), string(bytes)
				}
				if got != want {
					t.Errorf("%s: %s=%v, want %v", id, p.Key, got, want)
				}
			}
		}
	}
	if parsed < 7 {
		t.Errorf("only %d cases to parse", parsed)
	}
}

// The dialects that we speak come out as others write them, and those that only
// others speak are understood from an upstream.
func TestDialectVectors(t *testing.T) {
	spoken := map[string]headers.Options{
		"hdr-01": {Families: headers.XRateLimit},
		"hdr-05": {Families: headers.Draft11},
		"hdr-07": {Families: headers.None},
	}
	seen := 0
	for id, v := range vectors(t) {
		o, ok := spoken[id]
		if !ok || v.Kind != "emit" {
			continue
		}
		seen++
		reset := time.Duration(v.State.Reset) * time.Second
		d := admitted(v.Policy.Limit, v.State.Remaining, reset)
		if v.State.Denied {
			d = denied(weir.Limited, v.Policy.Limit, 0, time.Duration(v.Policy.Window)*time.Second, reset)
		}
		b, shows := bill(t, 0, decided{limit: fmt.Sprintf("%d/%ds", v.Policy.Limit, v.Policy.Window), Decision: d, show: headers.Show{Name: v.Policy.Name}})
		a := format(t, o).Answer(b, shows)
		h := http.Header{}
		a.Write(h)
		for name, want := range v.Headers {
			got := h.Get(name)
			switch {
			case id == "hdr-05": // spaces and the partition key are theirs
				ours, err := headers.ParseList(h[http.CanonicalHeaderKey(name)])
				theirs, theirErr := headers.ParseList([]string{want})
				if err != nil || theirErr != nil || ours[0].Name != theirs[0].Name {
					t.Fatalf("%s: %v %v: %v against %v", id, err, theirErr, ours, theirs)
				}
				for _, p := range ours[0].Params {
					if n, ok := theirs[0].Integer(p.Key); !ok || n != p.Value {
						t.Errorf("%s: %s: %s=%v, want %d", id, name, p.Key, p.Value, n)
					}
				}
				continue
			case want[0] == '<': // <unix seconds, now+60 rounded up>
				want = strconv.FormatInt(noon.Unix()+61, 10)
			}
			if got != want {
				t.Errorf("%s: %s: %q, want %q", id, name, got, want)
			}
		}
	}
	if seen != len(spoken) {
		t.Errorf("%d of %d dialects seen", seen, len(spoken))
	}
}

func TestHold(t *testing.T) {
	date := noon.Add(90 * time.Second).Format(http.TimeFormat)
	const never = time.Duration(1<<63 - 1)
	for _, c := range []struct {
		name   string
		status int
		fields string // name: value pairs
		want   time.Duration
	}{
		{"nothing said", 429, ``, 0},
		{"seconds", 429, `{"Retry-After":["12"]}`, 12 * time.Second},
		{"a date", 503, `{"Retry-After":["` + date + `"]}`, 90*time.Second - 1},
		{"a date in the past", 503, `{"Retry-After":["Mon, 02 Jan 2006 15:04:05 GMT"]}`, 0},
		{"a fraction is invalid", 429, `{"Retry-After":["2.5"]}`, 0},
		{"a sign is invalid", 429, `{"Retry-After":["-5"]}`, 0},
		{"more digits than an integer holds", 429, `{"Retry-After":["99999999999999999999"]}`, never},
		{"not on success", 201, `{"Retry-After":["12"]}`, 0},
		{"it wins over the fields", 429, `{"Retry-After":["12"],"Ratelimit":["\"a\";r=0;t=50"]}`, 12 * time.Second},
		{"draft-11, spent", 200, `{"Ratelimit":["\"a\";r=0;t=50"]}`, 50 * time.Second},
		{"draft-11, a token", 200, `{"Ratelimit":["a;r=0;t=50"]}`, 50 * time.Second},
		{"draft-11, something left", 200, `{"Ratelimit":["\"a\";r=1;t=50"]}`, 0},
		{"draft-11, the longest of the spent", 200, `{"Ratelimit":["\"a\";r=0;t=50, \"b\";r=9;t=90","\"c\";r=0;t=70"]}`, 70 * time.Second},
		{"draft-11, no t", 200, `{"Ratelimit":["\"a\";r=0"]}`, 0},
		{"draft-11, broken", 200, `{"Ratelimit":["\"a\";r=0;t=50,"]}`, 0},
		{"draft-11, broken, beside a triple", 200, `{"Ratelimit":["\"a\";r=0;t=50,"],"Ratelimit-Remaining":["0"],"Ratelimit-Reset":["7"]}`, 7 * time.Second},
		{"triple, broken, beside x", 200, `{"Ratelimit-Remaining":["0"],"Ratelimit-Reset":["7s"],"X-Ratelimit-Remaining":["0"],"X-Ratelimit-Reset":["9"]}`, 9 * time.Second},
		{"draft-11, from a cache", 200, `{"Age":["3"],"Ratelimit":["\"a\";r=0;t=50"]}`, 0},
		{"draft-07", 200, `{"Ratelimit":["limit=5, remaining=0, reset=60"]}`, time.Minute},
		{"draft-07, something left", 200, `{"Ratelimit":["limit=5, remaining=4, reset=60"]}`, 0},
		{"triple", 200, `{"Ratelimit-Remaining":["0"],"Ratelimit-Reset":["7"]}`, 7 * time.Second},
		{"triple goes before x", 200, `{"Ratelimit-Remaining":["1"],"Ratelimit-Reset":["7"],"X-Ratelimit-Remaining":["0"],"X-Ratelimit-Reset":["9"]}`, 0},
		{"x as a delay", 200, `{"X-Ratelimit-Remaining":["0"],"X-Ratelimit-Reset":["9"]}`, 9 * time.Second},
		{"x as an instant", 200, `{"X-Ratelimit-Remaining":["0"],"X-Ratelimit-Reset":["1796040030"]}`, 30*time.Second - 1},
		{"x as a word", 200, `{"X-Ratelimit-Remaining":["0"],"X-Ratelimit-Reset":["6m0s"]}`, 0},
	} {
		h := http.Header{}
		if c.fields != "" {
			if err := json.Unmarshal([]byte(c.fields), &h); err != nil {
				t.Fatal(err)
			}
		}
		if got := headers.Hold(c.status, h, noon); got != c.want {
			t.Errorf("%s: hold for %v, want %v", c.name, got, c.want)
		}
	}
}

// fields are texts that structured fields go wrong by; the fuzz targets start
// from them, and every run of the tests checks them.
var fields = []string{
	``, ` `, `a`, `"a";q=1;w=2, b;q=3`, `"a" ;q=1`, `"a";Q=1`, `burst; q=1`, `"a",`, `"a",,"b"`, `"a\"\\b"`, `"a\b"`, `"ü"`,
	`"a";q=999999999999999`, `"a";q=9999999999999999`, `"a";q=-1`, `"a";q=1.5`, `"a";q=1.`, `"a";q=1.2345`, `"a";q=1234567890123.0`,
	`"a";pk=:dXNlcjox:`, `"a";pk=:dXNlcjox`, `"a";pk=:d:`, `"a";pk=:sdfjLJUOUH==:`, `"a";b;c=?0;d=?1;e=?2`, `"a";d=@1659578233`, `"a";d=@1.5`,
	`"a";s=%"f%c3%bcr"`, `"a";s=%"f%C3"`, `"a";s=%"%ff"`, `"a";s=%"%`, `(a b);q=1`, `1;q=1`, `"a";q=1;q=2`, `*a/b:c;q=1`, "\"a\"\t,\t\"b\"", "\"a\x7f\"",
	`limit=5, remaining=4, reset=60`, `limit=5;x=1,remaining=4 , reset=60`, `limit=5,limit=6`, `limit`, `limit=`, `limit=5,`, `"a";=1`, `"a";q=`, `-`, `"a";q=--1`,
}

// same reports whether our reading of a parameter is the library's.
func same(ours, theirs any) bool {
	switch v := ours.(type) {
	case headers.Token:
		return httpsfv.Token(v) == theirs
	case headers.Display:
		return httpsfv.DisplayString(v) == theirs
	case headers.Date:
		at, ok := theirs.(time.Time)
		return ok && at.Equal(time.Unix(int64(v), 0))
	case headers.Decimal:
		n, err := strconv.ParseFloat(string(v), 64)
		return err == nil && n == theirs
	}
	return reflect.DeepEqual(ours, theirs)
}

func sameParams(t *testing.T, text string, ours []headers.Param, theirs *httpsfv.Params) {
	t.Helper()
	if len(ours) != len(theirs.Names()) {
		t.Fatalf("%q: %d parameters, the library has %d", text, len(ours), len(theirs.Names()))
	}
	for _, p := range ours {
		if v, ok := theirs.Get(p.Key); !ok || !same(p.Value, v) {
			t.Fatalf("%q: %s is %#v, the library has %#v", text, p.Key, p.Value, v)
		}
	}
}

// FuzzParseList holds the parser to the library: what it reads as a list of
// names we read alike, and everything else is an error.
func FuzzParseList(f *testing.F) {
	for _, s := range fields {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ours, err := headers.ParseList([]string{text})
		theirs, theirErr := httpsfv.UnmarshalList([]string{text})
		named := theirErr == nil
		for _, m := range theirs {
			item, ok := m.(httpsfv.Item)
			switch item.Value.(type) {
			case string, httpsfv.Token:
			default:
				ok = false
			}
			named = named && ok
		}
		if (err == nil) != named {
			t.Fatalf("%q: %v, the library says %v", text, err, theirErr)
		}
		if err != nil {
			return
		}
		if len(ours) != len(theirs) {
			t.Fatalf("%q: %d members, the library has %d", text, len(ours), len(theirs))
		}
		for i, m := range theirs {
			item := m.(httpsfv.Item)
			if fmt.Sprint(item.Value) != ours[i].Name {
				t.Fatalf("%q: name %q, the library has %v", text, ours[i].Name, item.Value)
			}
			sameParams(t, text, ours[i].Params, item.Params)
		}
	})
}

// FuzzParseDictionary does the same for dictionaries of plain values.
func FuzzParseDictionary(f *testing.F) {
	for _, s := range fields {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ours, err := headers.ParseDictionary([]string{text})
		theirs, theirErr := httpsfv.UnmarshalDictionary([]string{text})
		if theirErr != nil {
			if err == nil {
				t.Fatalf("%q: read, the library says %v", text, theirErr)
			}
			return
		}
		plain := true
		for _, key := range theirs.Names() {
			m, _ := theirs.Get(key)
			_, ok := m.(httpsfv.Item)
			plain = plain && ok
		}
		if !plain { // an inner list, which may also have been overwritten
			return
		}
		if err != nil {
			if !hasInnerList(text) {
				t.Fatalf("%q: %v, the library reads it", text, err)
			}
			return
		}
		if len(ours) != len(theirs.Names()) {
			t.Fatalf("%q: %d entries, the library has %d", text, len(ours), len(theirs.Names()))
		}
		for _, p := range ours {
			m, _ := theirs.Get(p.Key)
			if item, ok := m.(httpsfv.Item); !ok || !same(p.Value, item.Value) {
				t.Fatalf("%q: %s is %#v, the library has %#v", text, p.Key, p.Value, m)
			}
		}
	})
}

func hasInnerList(text string) bool {
	for i := range len(text) {
		if text[i] == '(' {
			return true
		}
	}
	return false
}

// FuzzName holds what we write to the library: every name makes a field that
// it reads, and it reads back the slug.
func FuzzName(f *testing.F) {
	for _, s := range fields {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		b, shows := bill(t, 0, decided{limit: "5/min", Decision: admitted(5, 4, time.Second), show: headers.Show{Name: name}})
		a := format(t, headers.Options{Families: headers.Draft11}).Answer(b, shows)
		want := headers.Slug(name)
		if name == "" {
			want = "default"
		}
		for field, text := range a.Fields() {
			list, err := httpsfv.UnmarshalList([]string{text})
			if err != nil || len(list) != 1 || list[0].(httpsfv.Item).Value != want {
				t.Fatalf("%s: %q: %v %v, want the name %q", field, text, list, err, want)
			}
		}
	})
}
