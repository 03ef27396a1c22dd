package headers_test

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/headers"
)

// least and most are the ends of every jitter.
func least(int64) int64  { return 0 }
func most(n int64) int64 { return n - 1 }

var noon = time.Date(2026, 11, 30, 12, 0, 0, 1, time.UTC)

func format(t testing.TB, o headers.Options) *headers.Format {
	t.Helper()
	if o.Random == nil {
		o.Random = least
	}
	if o.Now == nil {
		o.Now = func() time.Time { return noon }
	}
	f, err := headers.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// decided is one charge and what was decided on it.
type decided struct {
	limit string
	weir.Decision
	trial int8
	show  headers.Show
}

// bill returns a bill that was decided as its charges say; binding is the
// decision that the bill takes over.
func bill(t testing.TB, binding int, charges ...decided) (*weir.Bill, []headers.Show) {
	t.Helper()
	b := &weir.Bill{}
	var shows []headers.Show
	for _, c := range charges {
		limit, err := weir.ParseLimit(c.limit)
		if err != nil {
			t.Fatal(err)
		}
		charge := limit.Charge("k")
		charge.Trial = c.trial
		b.Charges, b.Each, shows = append(b.Charges, charge), append(b.Each, c.Decision), append(shows, c.show)
	}
	if binding >= 0 {
		b.Decision = b.Each[binding]
	}
	return b, shows
}

func admitted(limit, remaining int64, reset time.Duration) weir.Decision {
	return weir.Decision{Allowed: true, Limit: limit, Remaining: remaining, ResetAfter: reset}
}

func denied(reason weir.Reason, limit, remaining int64, retry, reset time.Duration) weir.Decision {
	return weir.Decision{Reason: reason, Limit: limit, Remaining: remaining, RetryAfter: retry, ResetAfter: reset}
}

var answers = []struct {
	name    string
	options headers.Options
	binding int
	charges []decided
	status  int
	fields  map[string]string
}{
	{
		name: "admitted, default families", charges: []decided{{limit: "100/min", Decision: admitted(100, 99, 600*time.Millisecond)}},
		status: 200, fields: map[string]string{
			"RateLimit-Limit": "100", "RateLimit-Remaining": "99", "RateLimit-Reset": "1",
			"RateLimit-Policy": `"default";q=100;w=60`, "RateLimit": `"default";r=99;t=1`,
		},
	},
	{
		name: "one microsecond past a second is two", charges: []decided{{limit: "10/min name=a", Decision: admitted(10, 9, time.Second+time.Microsecond)}},
		status: 200, options: headers.Options{Families: headers.Triple},
		fields: map[string]string{"RateLimit-Limit": "10", "RateLimit-Remaining": "9", "RateLimit-Reset": "2"},
	},
	{
		name: "a whole second is itself", charges: []decided{{limit: "10/min name=a", Decision: admitted(10, 9, time.Second)}},
		status: 200, options: headers.Options{Families: headers.Triple},
		fields: map[string]string{"RateLimit-Limit": "10", "RateLimit-Remaining": "9", "RateLimit-Reset": "1"},
	},
	{
		name: "a full balance resets at once", charges: []decided{{limit: "10/min", Decision: admitted(10, 10, 0)}},
		status: 200, options: headers.Options{Families: headers.Draft11},
		fields: map[string]string{"RateLimit-Policy": `"default";q=10;w=60`, "RateLimit": `"default";r=10;t=0`},
	},
	{
		name: "the window of a bucket is its refill, rounded up", charges: []decided{{limit: "3/s burst=10 name=api", Decision: admitted(10, 4, 2*time.Second)}},
		status: 200, options: headers.Options{Families: headers.Draft11},
		fields: map[string]string{"RateLimit-Policy": `"api";q=10;w=4`, "RateLimit": `"api";r=4;t=2`},
	},
	{
		name: "a window under a second is one", charges: []decided{{limit: "5/250ms algorithm=sliding_window", Decision: admitted(5, 4, time.Millisecond)}},
		status: 200, options: headers.Options{Families: headers.Draft11},
		fields: map[string]string{"RateLimit-Policy": `"default";q=5;w=1`, "RateLimit": `"default";r=4;t=1`},
	},
	{
		name: "denied: one wait", charges: []decided{{limit: "5/min name=login", Decision: denied(weir.Limited, 5, 0, 11400*time.Millisecond, time.Minute)}},
		status: 429, fields: map[string]string{
			"RateLimit-Limit": "5", "RateLimit-Remaining": "0", "RateLimit-Reset": "60",
			"RateLimit-Policy": `"login";q=5;w=60`, "RateLimit": `"login";r=0;t=12`,
			"Retry-After": "12", "Cache-Control": "no-store",
		},
	},
	{
		name: "denied: the other end of the jitter", options: headers.Options{Random: most},
		charges: []decided{{limit: "5/min name=login", Decision: denied(weir.Limited, 5, 0, 10*time.Second, time.Minute)}},
		status:  429, fields: map[string]string{
			"RateLimit-Limit": "5", "RateLimit-Remaining": "0", "RateLimit-Reset": "60",
			"RateLimit-Policy": `"login";q=5;w=60`, "RateLimit": `"login";r=0;t=12`,
			"Retry-After": "12", "Cache-Control": "no-store",
		},
	},
	{
		name: "denied: never", charges: []decided{{limit: "5/min name=login", Decision: denied(weir.TooLarge, 5, 3, weir.Never, 24*time.Second)}},
		status: 429, fields: map[string]string{
			"RateLimit-Limit": "5", "RateLimit-Remaining": "3", "RateLimit-Reset": "24",
			"RateLimit-Policy": `"login";q=5;w=60`, "RateLimit": `"login";r=3`,
			"Cache-Control": "no-store",
		},
	},
	{
		name: "closed without its store", charges: []decided{{limit: "5/min name=login on_store_failure=closed", Decision: denied(weir.FailedClosed, 5, 0, time.Second, 0)}},
		status: 503, options: headers.Options{Families: headers.None},
		fields: map[string]string{"Retry-After": "1", "Cache-Control": "no-store"},
	},
	{
		name: "two layers: the least remaining binds", binding: 1, charges: []decided{
			{limit: "100/min name=tenant", Decision: admitted(100, 60, 24*time.Second)},
			{limit: "5/min name=login", Decision: admitted(5, 4, 12*time.Second)},
		},
		status: 200, fields: map[string]string{
			"RateLimit-Limit": "5", "RateLimit-Remaining": "4", "RateLimit-Reset": "12",
			"RateLimit-Policy": `"tenant";q=100;w=60, "login";q=5;w=60`, "RateLimit": `"tenant";r=60;t=24, "login";r=4;t=12`,
		},
	},
	{
		name: "two layers, one refuses: no t is past Retry-After", binding: 1, charges: []decided{
			{limit: "100/min name=tenant", Decision: admitted(100, 60, 24*time.Second)},
			{limit: "5/min name=login", Decision: denied(weir.Limited, 5, 0, 6*time.Second, time.Minute)},
			{limit: "9/min name=idle", Decision: admitted(9, 9, 0)},
		},
		status: 429, fields: map[string]string{
			"RateLimit-Limit": "5", "RateLimit-Remaining": "0", "RateLimit-Reset": "60",
			"RateLimit-Policy": `"tenant";q=100;w=60, "login";q=5;w=60, "idle";q=9;w=60`,
			"RateLimit":        `"tenant";r=60;t=6, "login";r=0;t=6, "idle";r=9;t=0`,
			"Retry-After":      "6", "Cache-Control": "no-store",
		},
	},
	{
		name: "both refuse: the longest retry binds, its wait is both's", binding: 1, charges: []decided{
			{limit: "1/s name=fast", Decision: denied(weir.Limited, 1, 0, time.Second, time.Second)},
			{limit: "5/min name=slow", Decision: denied(weir.Limited, 5, 0, 12*time.Second, time.Minute)},
		},
		status: 429, fields: map[string]string{
			"RateLimit-Limit": "5", "RateLimit-Remaining": "0", "RateLimit-Reset": "60",
			"RateLimit-Policy": `"fast";q=1;w=1, "slow";q=5;w=60`, "RateLimit": `"fast";r=0;t=12, "slow";r=0;t=12`,
			"Retry-After": "12", "Cache-Control": "no-store",
		},
	},
	{
		name: "the binding one is hidden: the next that may be shown", binding: 0, charges: []decided{
			{limit: "5000/s name=everyone", Decision: admitted(5000, 1, time.Second), show: headers.Show{Hidden: true}},
			{limit: "100/min name=tenant", Decision: admitted(100, 60, 24*time.Second)},
		},
		status: 200, fields: map[string]string{
			"RateLimit-Limit": "100", "RateLimit-Remaining": "60", "RateLimit-Reset": "24",
			"RateLimit-Policy": `"tenant";q=100;w=60`, "RateLimit": `"tenant";r=60;t=24`,
		},
	},
	{
		name: "a hidden one refuses: a wait, and nothing that tells which", binding: 0, charges: []decided{
			{limit: "5000/s name=everyone", Decision: denied(weir.Limited, 5000, 0, 3*time.Second, time.Second), show: headers.Show{Hidden: true}},
			{limit: "100/min name=tenant", Decision: admitted(100, 60, 24*time.Second)},
		},
		status: 429, fields: map[string]string{
			"RateLimit-Limit": "100", "RateLimit-Remaining": "60", "RateLimit-Reset": "24",
			"RateLimit-Policy": `"tenant";q=100;w=60`, "RateLimit": `"tenant";r=60;t=3`,
			"Retry-After": "3", "Cache-Control": "no-store",
		},
	},
	{
		name: "trials and unlimited never show", binding: 1, charges: []decided{
			{limit: "1/s name=shadow", Decision: denied(weir.Limited, 1, 0, time.Second, time.Second), trial: -1},
			{limit: "100/min name=tenant", Decision: admitted(100, 60, 24*time.Second)},
			{limit: "50/min name=try", Decision: admitted(50, 1, time.Second), trial: 2},
			{limit: "unlimited", Decision: admitted(weir.Unbounded, weir.Unbounded, 0)},
		},
		status: 200, fields: map[string]string{
			"RateLimit-Limit": "100", "RateLimit-Remaining": "60", "RateLimit-Reset": "24",
			"RateLimit-Policy": `"tenant";q=100;w=60`, "RateLimit": `"tenant";r=60;t=24`,
		},
	},
	{
		name: "unlimited alone shows nothing", charges: []decided{{limit: "unlimited", Decision: admitted(weir.Unbounded, weir.Unbounded, 0)}},
		status: 200, fields: map[string]string{},
	},
	{
		name: "no charges, no fields", binding: -1, status: 429, fields: map[string]string{"Retry-After": "1", "Cache-Control": "no-store"},
	},
	{
		name: "four members at most, in rule order", binding: 4, charges: []decided{
			{limit: "9/s name=a", Decision: admitted(9, 8, time.Second)}, {limit: "8/s name=b", Decision: admitted(8, 7, time.Second)},
			{limit: "7/s name=c", Decision: admitted(7, 6, time.Second)}, {limit: "6/s name=d", Decision: admitted(6, 5, time.Second)},
			{limit: "5/s name=e", Decision: admitted(5, 4, time.Second)},
		},
		status: 200, fields: map[string]string{
			"RateLimit-Limit": "5", "RateLimit-Remaining": "4", "RateLimit-Reset": "1",
			"RateLimit-Policy": `"a";q=9;w=1, "b";q=8;w=1, "c";q=7;w=1, "d";q=6;w=1`,
			"RateLimit":        `"a";r=8;t=1, "b";r=7;t=1, "c";r=6;t=1, "d";r=5;t=1`,
		},
	},
	{
		name: "the rule's name goes before the limit's", options: headers.Options{Families: headers.Draft11},
		charges: []decided{{limit: "9/s name=a", Decision: admitted(9, 8, time.Second), show: headers.Show{Name: `per "tenant"\ü`}}},
		status:  200, fields: map[string]string{
			"RateLimit-Policy": `"per \"tenant\"\\%C3%BC";q=9;w=1`, "RateLimit": `"per \"tenant\"\\%C3%BC";r=8;t=1`,
		},
	},
	{
		name: "x-ratelimit counts to an instant, rounded up", options: headers.Options{Families: headers.XRateLimit},
		charges: []decided{{limit: "5/min", Decision: admitted(5, 4, 12*time.Second)}},
		status:  200, fields: map[string]string{"X-RateLimit-Limit": "5", "X-RateLimit-Remaining": "4", "X-RateLimit-Reset": "1796040013"},
	},
	{
		name: "x-ratelimit as a delay", options: headers.Options{Families: headers.XRateLimit, XReset: headers.Delta},
		charges: []decided{{limit: "5/min", Decision: admitted(5, 4, 11001*time.Millisecond)}},
		status:  200, fields: map[string]string{"X-RateLimit-Limit": "5", "X-RateLimit-Remaining": "4", "X-RateLimit-Reset": "12"},
	},
	{
		name: "a limit of nothing", charges: []decided{{limit: "0/min", Decision: denied(weir.Limited, 0, 0, weir.Never, 0)}},
		status: 429, fields: map[string]string{
			"RateLimit-Limit": "0", "RateLimit-Remaining": "0", "RateLimit-Reset": "0",
			"RateLimit-Policy": `"default";q=0;w=60`, "RateLimit": `"default";r=0`, "Cache-Control": "no-store",
		},
	},
	{
		name: "blocked for a while", options: headers.Options{Families: headers.None},
		charges: []decided{{limit: "5/min", Decision: denied(weir.Blocked, 5, 0, 90*time.Second, 0)}},
		status:  429, fields: map[string]string{"Retry-After": "90", "Cache-Control": "no-store"},
	},
	{
		name: "blocked for good", options: headers.Options{Families: headers.None},
		charges: []decided{{limit: "5/min", Decision: denied(weir.Blocked, 5, 0, weir.Never, 0)}},
		status:  403, fields: map[string]string{"Cache-Control": "no-store"},
	},
	{
		name: "no key", options: headers.Options{Families: headers.None},
		charges: []decided{{limit: "5/min", Decision: denied(weir.Missing, 5, 0, 0, 0)}},
		status:  403, fields: map[string]string{"Cache-Control": "no-store"},
	},
}

func TestAnswer(t *testing.T) {
	for _, c := range answers {
		t.Run(c.name, func(t *testing.T) {
			b, shows := bill(t, c.binding, c.charges...)
			a := format(t, c.options).Answer(b, shows)
			if a.Status != c.status {
				t.Errorf("status %d, want %d", a.Status, c.status)
			}
			got := maps.Collect(a.Fields())
			if !maps.Equal(got, c.fields) {
				t.Errorf("fields\n got %v\nwant %v", got, c.fields)
			}
			h := http.Header{"Ratelimit": {"of an upstream", "twice"}, "X-Other": {"stays"}}
			a.Write(h)
			for name, want := range c.fields {
				if v := h.Values(name); len(v) != 1 || v[0] != want {
					t.Errorf("header %s is %q, want %q alone", name, v, want)
				}
			}
			if h.Get("X-Other") != "stays" {
				t.Error("Write changed a field that is not its own")
			}
			structured(t, got)
		})
	}
}

// structured holds the draft-11 fields to a structured-field library, and to the
// draft: names are strings, q r t are integers ≥ 0, w is one > 0, and
// Retry-After is not earlier than any t.
func structured(t *testing.T, fields map[string]string) {
	t.Helper()
	for _, f := range []struct{ name, must, may string }{{"RateLimit-Policy", "q", "w"}, {"RateLimit", "r", "t"}} {
		text, ok := fields[f.name]
		if !ok {
			continue
		}
		list, err := httpsfv.UnmarshalList([]string{text})
		if err != nil {
			t.Fatalf("%s: %v", f.name, err)
		}
		if again, err := httpsfv.Marshal(list); err != nil || again != text {
			t.Errorf("%s: written back as %q (%v), was %q", f.name, again, err, text)
		}
		for _, m := range list {
			item, ok := m.(httpsfv.Item)
			if _, isString := item.Value.(string); !ok || !isString {
				t.Errorf("%s: %v is no string", f.name, m)
				continue
			}
			for _, key := range item.Params.Names() {
				v, _ := item.Params.Get(key)
				n, ok := v.(int64)
				if !ok || n < 0 || key == "w" && n == 0 || key != f.must && key != f.may {
					t.Errorf("%s: parameter %s=%v", f.name, key, v)
				}
				var wait int64
				if err := json.Unmarshal([]byte(fields["Retry-After"]), &wait); err == nil && key == "t" && n > wait {
					t.Errorf("t=%d is past Retry-After %d", n, wait)
				}
			}
			if _, ok := item.Params.Get(f.must); !ok {
				t.Errorf("%s: no %s", f.name, f.must)
			}
		}
	}
}

// A bill that a real limiter decided comes out as the hand-made ones do.
func TestAnswerOfARealBill(t *testing.T) {
	l, err := weir.New(weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	limit, err := weir.ParseLimit("1/366d name=yearly")
	if err != nil {
		t.Fatal(err)
	}
	b := weir.Bill{Charges: []weir.Charge{limit.Charge("k")}}
	f := format(t, headers.Options{})
	for _, want := range []string{`"yearly";r=0;t=31622400`, `"yearly";r=0;t=31622400`} {
		if err := l.Decide(context.Background(), &b); err != nil {
			t.Fatal(err)
		}
		a := f.Answer(&b, nil)
		if got := maps.Collect(a.Fields())["RateLimit"]; got != want {
			t.Errorf("RateLimit: %s, want %s", got, want)
		}
	}
	if b.Allowed {
		t.Error("the second was admitted")
	}
}

func TestAnswerAllocations(t *testing.T) {
	b, shows := bill(t, 0, decided{limit: "100/min", Decision: admitted(100, 99, time.Second)}, decided{limit: "1000/h name=hourly", Decision: admitted(1000, 99, time.Second)})
	f, h := format(t, headers.Options{Families: headers.Default | headers.XRateLimit}), http.Header{}
	if n := testing.AllocsPerRun(100, func() {
		a := f.Answer(b, shows)
		a.Write(h)
	}); n > 2 {
		t.Errorf("%v allocations for an admitted bill, want 2: the text and the values", n)
	}
}

func BenchmarkAnswer(b *testing.B) {
	one, shows := bill(b, 0, decided{limit: "100/min", Decision: admitted(100, 99, time.Second)})
	f, h := format(b, headers.Options{}), http.Header{}
	b.ReportAllocs()
	for b.Loop() {
		a := f.Answer(one, shows)
		a.Write(h)
	}
}
