package check

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/gate"
	"github.com/weirhq/weir/headers"
)

// counting counts the bills that reach a store to be charged.
type counting struct {
	weir.Store
	taken atomic.Int64
}

func (c *counting) Apply(ctx context.Context, bills []*weir.Bill) {
	for _, b := range bills {
		if b.Verb == algo.Take {
			c.taken.Add(1)
		}
	}
	c.Store.Apply(ctx, bills)
}

// bench is a door on a memory store.
type bench struct {
	door  http.Handler
	store *counting
	now   atomic.Int64 // µs
}

func newBench(t testing.TB, store weir.Store, secret []byte) *bench {
	if secret == nil {
		secret = []byte("s")
	}
	t.Helper()
	b := &bench{}
	b.now.Store(1_000_000_000_000_000)
	if store == nil {
		store = weir.NewMemory(weir.MemoryOptions{Now: b.now.Load})
	}
	b.store = &counting{Store: store}
	l, err := weir.New(weir.Options{Store: b.store})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	format, err := headers.New(headers.Options{Random: func(int64) int64 { return 0 }})
	if err != nil {
		t.Fatal(err)
	}
	b.door = New(Options{
		Limiter: l, Gate: gate.New(l, nil, nil), Secret: func() []byte { return secret },
		Format: func() *headers.Format { return format },
		Status: func(context.Context) Status { return Status{Ready: true, Status: "ready", Store: "memory"} },
	})
	return b
}

func (b *bench) post(path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	b.door.ServeHTTP(w, r)
	return w
}

// decode reads a JSON answer.
func decode[T any](t *testing.T, w *httptest.ResponseRecorder) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatalf("%s: %v", w.Body, err)
	}
	return v
}

func TestTake(t *testing.T) {
	b := newBench(t, nil, nil)
	w := b.post("/v1/take", `{"key":"user:42","limit":"2/min"}`)
	want := `{"allowed":true,"reason":"ok","source":"memory","limit":2,"remaining":1,"retry_after_ms":0,"reset_after_ms":30000,"delay_ms":0,"binding":0,` +
		`"charges":[{"allowed":true,"reason":"ok","source":"memory","limit":2,"remaining":1,"retry_after_ms":0,"reset_after_ms":30000,"delay_ms":0}]}` + "\n"
	if w.Code != 200 || w.Body.String() != want || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("%d %v\n%s", w.Code, w.Header(), w.Body)
	}
	b.now.Add(1) // what is left of 29.999999 s is 30,000 ms: rounded up
	w = b.post("/v1/take", `{"key":"user:42","limit":{"rate":"2/min"},"cost":2}`)
	a := decode[Answer](t, w)
	if w.Code != 429 || a.Allowed || a.Reason != "limited" || a.RetryAfterMS != 30000 || *a.Remaining != 1 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for name, want := range map[string]string{
		"RateLimit-Limit": "2", "RateLimit-Remaining": "1", "RateLimit-Reset": "30",
		"RateLimit-Policy": `"default";q=2;w=60`, "RateLimit": `"default";r=1;t=30`,
		"Retry-After": "30", "Cache-Control": "no-store",
	} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s is %q, not %q", name, got, want)
		}
	}
}

func TestTakeForms(t *testing.T) {
	for _, c := range []struct {
		name, body string
		status     int
		want       string // part of the body
	}{
		{"cost 0 looks", `{"key":"a","limit":"1/min","cost":0}`, 200, `"remaining":1`},
		{"unlimited", `{"key":"a","limit":"unlimited"}`, 200, `"limit":null,"remaining":null`},
		{"too large", `{"key":"a","limit":"1/min","cost":2}`, 429, `"reason":"too_large","source":"memory","limit":1,"remaining":1,"retry_after_ms":-1`},
		{"nothing fits", `{"key":"a","limit":"0/min"}`, 429, `"reason":"limited","source":"memory","limit":0,"remaining":0,"retry_after_ms":-1`},
		{"a bill", `{"charges":[{"key":"a","limit":"5/s"},{"key":"b","limit":"1/min","cost":1}]}`, 200, `"binding":1,`},
		{"a limit in words", `{"key":"a","limit":{"burst":7,"rate":"1/s","algorithm":"leaky_bucket","name":"x","on_store_failure":"open"}}`, 200, `"limit":8`},
		{"a calendar", `{"key":"a","limit":{"rate":"5/month","algorithm":"fixed_window","tz":"UTC"}}`, 200, `"limit":5`},
		{"escapes", `{"key":"\u00e9\ud83d\ude00\n","limit":"5/s"}`, 200, `"allowed":true`},
		{"space around", "\t{ \"key\" : \"a\" ,\r\n\"limit\":\"5/s\" } \n", 200, `"allowed":true`},
		{"the longest key", `{"key":"` + strings.Repeat("k", 1024) + `","limit":"5/s"}`, 200, `"allowed":true`},
		{"the largest cost", `{"key":"a","limit":"5/s","cost":9007199254740991}`, 429, `"too_large"`},
		{"32 charges", `{"charges":[` + strings.Repeat(`{"key":"a","limit":"100/s"},`, 31) + `{"key":"a","limit":"100/s"}]}`, 200, `"remaining":68`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newBench(t, nil, nil).post("/v1/take", c.body)
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
				t.Errorf("%d %s\nwant %d and %s", w.Code, w.Body, c.status, c.want)
			}
		})
	}
}

func TestPeekChargesNothing(t *testing.T) {
	b := newBench(t, nil, nil)
	for range 3 {
		if w := b.post("/v1/peek", `{"key":"a","limit":"1/min"}`); w.Code != 200 || *decode[Answer](t, w).Remaining != 1 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	b.post("/v1/take", `{"key":"a","limit":"1/min"}`)
	if w := b.post("/v1/peek", `{"key":"a","limit":"1/min"}`); w.Code != 429 || decode[Answer](t, w).RetryAfterMS != 60000 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestBatch(t *testing.T) {
	b := newBench(t, nil, nil)
	w := b.post("/v1/take/batch", `{"bills":[
		{"key":"a","limit":"1/min"},
		{"key":"a","limit":"1/min"},
		{"key":"a","limit":"10r/s"},
		{"key":"a","key":"b","limit":"1/min"},
		{"charges":[{"key":"a","limit":"1/min"},{"key":"c","limit":"1/min","cost":-1}],"x":[{"]":"}"}]},
		{"charges":[{"key":"z","limit":"5/min"},{"key":"z","limit":"6/min"}]},
		null,
		{"key":"b","limit":"1/min","receipt":true}
	]}`)
	if w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	type either struct {
		Answer
		fault
	}
	got := decode[struct{ Decisions []either }](t, w).Decisions
	want := []struct {
		allowed      bool
		reason, path string
	}{
		{true, "ok", ""}, {false, "limited", ""}, {false, "", "limit"}, {false, "", "key"},
		{false, "", "charges[1].cost"}, {false, "", "charges[1].limit"}, {false, "", "bills[6]"}, {true, "ok", ""},
	}
	if len(got) != len(want) {
		t.Fatalf("%d decisions: %s", len(got), w.Body)
	}
	for i, d := range got {
		bad := want[i].reason == ""
		if d.Allowed != want[i].allowed || d.Reason != want[i].reason || d.Field != want[i].path || (d.Error != "") != bad {
			t.Errorf("decision %d: %+v", i, d)
		}
	}
	if got[7].Answer.Receipt == "" {
		t.Error("no receipt")
	}
	if taken := b.store.taken.Load(); taken != 3 {
		t.Errorf("%d bills were charged, not 3", taken)
	}
	if w := b.post("/v1/take/batch", `{"bills":[]}`); w.Code != 200 || strings.TrimSpace(w.Body.String()) != `{"decisions":[]}` {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestRefund(t *testing.T) {
	for _, secret := range []string{"one", "a secret"} {
		b := newBench(t, nil, []byte(secret))
		take := decode[Answer](t, b.post("/v1/take", `{"key":"a","limit":"10/min name=x","cost":4,"receipt":true}`))
		if take.Receipt == "" || take.Receipt != take.Charges[0].Token {
			t.Fatalf("receipts %q and %q", take.Receipt, take.Charges[0].Token)
		}
		body := `{"receipt":"` + take.Receipt + `","cost":3}`
		if w := b.post("/v1/refund", body); w.Code != 200 || strings.TrimSpace(w.Body.String()) != `{"refunded":3}` {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if w := b.post("/v1/refund", body); w.Code != 200 || strings.TrimSpace(w.Body.String()) != `{"refunded":0}` {
			t.Errorf("again: %d %s", w.Code, w.Body)
		}
		if a := decode[Answer](t, b.post("/v1/peek", `{"key":"a","limit":"10/min name=x"}`)); *a.Remaining != 9 {
			t.Errorf("%d left, not 9", *a.Remaining)
		}
	}
}

// Without the secret nobody knows whether a receipt is good: its holder is told to
// try again, not to throw it away. What is no receipt under any secret is refused.
func TestRefundWithoutTheSecret(t *testing.T) {
	token := decode[Answer](t, newBench(t, nil, []byte("s")).post("/v1/take", `{"key":"a","limit":"5/min","receipt":true}`)).Receipt
	b := newBench(t, nil, []byte{})
	for receipt, want := range map[string]int{token: 503, "abc": 400, token + "!": 400} {
		w := b.post("/v1/refund", `{"receipt":"`+receipt+`"}`)
		if w.Code != want || w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s, want %d", receipt, w.Code, w.Body, want)
		}
	}
}

// TestReceiptsAreWhole flips every bit of a token, offers one that another secret
// has signed, and asks while there is no secret.
func TestReceiptsAreWhole(t *testing.T) {
	signed, other, none := signedBy("s"), signedBy("t"), signedBy("")
	c := weir.PerMinute(5).Named("a name").Charge("k")
	c.Space, c.Group = "rule:x", "acme"
	c.Receipt = weir.Receipt{ID: 1<<63 + 1, For: 1<<63 + 3, Cost: 1, At: 5, Due: 6, Phase: 7}
	for _, r := range []receipts{signed, other} {
		got, err := r.charge(r.token(&c))
		c.Peek, c.Cost = false, 0
		if err != nil || got != c {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	token := []byte(signed.token(&c))
	for i := range token {
		for bit := range 7 {
			forged := bytes.Clone(token)
			forged[i] ^= 1 << bit
			if _, err := signed.charge(string(forged)); !errors.Is(err, errReceipt) {
				t.Fatalf("accepted %s", forged)
			}
		}
	}
	if _, err := signed.charge(other.token(&c)); err == nil {
		t.Error("a receipt signed by another secret passed")
	}
	if token := none.token(&c); token != "" {
		t.Errorf("without a secret there is a receipt: %s", token)
	}
	if _, err := none.charge(signed.token(&c)); !errors.Is(err, errNoSecret) {
		t.Errorf("a receipt where there is no secret to check it by: %v", err)
	}
}

func signedBy(secret string) receipts { return receipts{func() []byte { return []byte(secret) }} }

// down is a store that cannot be reached.
type down struct{ weir.Store }

func (down) Apply(_ context.Context, bills []*weir.Bill) {
	for _, b := range bills {
		b.Err = &weir.StoreError{Kind: "unreachable", Unreachable: true}
	}
}

func TestStoreDown(t *testing.T) {
	b := newBench(t, down{weir.NewMemory(weir.MemoryOptions{})}, []byte("s"))
	for limit, want := range map[string]struct {
		status         int
		reason, source string
	}{
		"5/min on_store_failure=closed": {503, "failed_closed", "none"},
		"5/min on_store_failure=open":   {200, "failed_open", "none"},
		"5/min":                         {200, "ok", "local"},
	} {
		w := b.post("/v1/take", `{"key":"a","limit":"`+limit+`","receipt":true}`)
		a := decode[Answer](t, w)
		if w.Code != want.status || a.Reason != want.reason || a.Source != want.source || a.Receipt != "" {
			t.Errorf("%s: %d %s", limit, w.Code, w.Body)
		}
	}
	token := decode[Answer](t, newBench(t, nil, []byte("s")).post("/v1/take", `{"key":"a","limit":"5/min","receipt":true}`)).Receipt
	if w := b.post("/v1/refund", `{"receipt":"`+token+`"}`); w.Code != 503 || w.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("refund: %d %s", w.Code, w.Body)
	}
}

func TestMethodsTypesAndSizes(t *testing.T) {
	b := newBench(t, nil, nil)
	ask := func(method, path, contentType string, body io.Reader) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, body)
		if contentType != "" {
			r.Header.Set("Content-Type", contentType)
		}
		w := httptest.NewRecorder()
		b.door.ServeHTTP(w, r)
		return w
	}
	const good = `{"key":"a","limit":"100/s"}`
	for _, c := range []struct {
		method, path, contentType, body string
		status                          int
		allow                           string
	}{
		{"GET", "/v1/take", "", "", 405, "POST"},
		{"PUT", "/v1/refund", "", "", 405, "POST"},
		{"POST", "/healthz", "", "", 405, "GET, HEAD"},
		{"GET", "/healthz", "", "", 200, ""},
		{"HEAD", "/readyz", "", "", 200, ""},
		{"POST", "/v1/nothing", "application/json", good, 404, ""},
		{"POST", "/v1/take/", "application/json", good, 404, ""},
		{"POST", "/v1/take", "", good, 415, ""},
		{"POST", "/v1/take", "text/plain", good, 415, ""},
		{"POST", "/v1/take", "application/json; charset=latin1", good, 415, ""},
		{"POST", "/v1/take", "application/json;", good, 200, ""},
		{"POST", "/v1/take", "Application/JSON; charset=UTF-8", good, 200, ""},
		{"POST", "/v1/take", "application/json", strings.Repeat(" ", 1<<20-len(good)) + good, 200, ""},
		{"POST", "/v1/take", "application/json", strings.Repeat(" ", 1<<20-len(good)+1) + good, 413, ""},
	} {
		w := ask(c.method, c.path, c.contentType, strings.NewReader(c.body))
		if w.Code != c.status || w.Header().Get("Allow") != c.allow {
			t.Errorf("%s %s %s: %d, Allow %q", c.method, c.path, c.contentType, w.Code, w.Header().Get("Allow"))
		}
		if w.Code >= 400 && w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %s: a refusal of %s", c.method, c.path, w.Header().Get("Content-Type"))
		}
	}
	if w := b.post("/v1/take", good, "Content-Encoding", "gzip"); w.Code != 415 {
		t.Errorf("gzip: %d", w.Code)
	}
}

func TestCheckWithoutRules(t *testing.T) {
	w := newBench(t, nil, nil).post("/v1/check", `{"method":"GET","path":"/a?b=c","host":"h","ip":"192.0.2.1","headers":{"X-A":["1","2"]},"attrs":{"account":"a"},"cost":2}`)
	a := decode[Answer](t, w)
	if w.Code != 200 || !a.Allowed || a.Charges == nil || len(a.Charges) != 0 || w.Header().Get("RateLimit-Limit") != "" {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
}

func TestReadyz(t *testing.T) {
	d := &door{Options: Options{Status: func(context.Context) Status { return Status{Status: "draining", Store: "redis", Cause: "timeout"} }}}
	w := httptest.NewRecorder()
	d.readyz(w, httptest.NewRequest("GET", "/readyz", nil))
	if w.Code != 503 || strings.TrimSpace(w.Body.String()) != `{"status":"draining","store":"redis","cause":"timeout"}` {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestGoneClient: nothing is charged to a request whose client has gone.
func TestGoneClient(t *testing.T) {
	b := newBench(t, nil, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequestWithContext(ctx, "POST", "/v1/take", strings.NewReader(`{"key":"a","limit":"1/s"}`))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	b.door.ServeHTTP(w, r)
	if w.Code != 503 || b.store.taken.Load() != 0 {
		t.Errorf("%d, %d charged", w.Code, b.store.taken.Load())
	}
}

func TestMillis(t *testing.T) {
	for d, want := range map[time.Duration]int64{0: 0, 1: 1, time.Millisecond: 1, time.Millisecond + 1: 2, weir.Never: -1} {
		if got := headers.Milliseconds(d); got != want {
			t.Errorf("%v: %d", d, got)
		}
	}
}
