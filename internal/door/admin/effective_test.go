package admin

import (
	"encoding/json"
	"net/http"
	"reflect"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/gate"
	"github.com/weirhq/weir/identity"
	"github.com/weirhq/weir/policy"
)

func TestPolicyTellsWhatIsInForce(t *testing.T) {
	l, err := weir.New(weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p, err := policy.Compile(policy.Options{Rules: []policy.Rule{
		{
			Name: "login", Limit: weir.PerMinute(5), Key: key(t, "ip"),
			Match: policy.Conditions{Methods: []string{"POST"}, Paths: []string{"/login"}, Headers: []policy.HeaderCondition{{Name: "X-A"}}},
		},
		{
			Name: "tenant", Key: key(t, "tenant"), Mode: policy.Shadow,
			Plans: map[string]weir.Limit{"pro": weir.PerSecond(20).Burst(200)}, Not: policy.Conditions{Tenants: []string{"own"}},
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	g := gate.New(l, nil, p)
	h := New(Options{Gate: g})
	get := func() (e Effective) {
		t.Helper()
		w := ask(h, "GET", "/v1/policy")
		if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || w.Code != http.StatusOK {
			t.Fatal(w.Code, err)
		}
		return e
	}
	want := Effective{Rules: []EffectiveRule{
		{
			Name: "login", Limit: "5/min", Key: []string{"ip"}, Mode: "enforce", FileMode: "enforce",
			Match: &Conditions{Methods: []string{"POST"}, Paths: []string{"/login"}, Headers: map[string][]string{"X-A": {}}},
		},
		{
			Name: "tenant", Plans: map[string]string{"pro": "20/s burst=200"}, Key: []string{"tenant"}, Mode: "shadow", FileMode: "shadow",
			Not: &Conditions{Tenants: []string{"own"}},
		},
	}}
	if got := get(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}

	// A switch by name beats that of all, whichever comes first; one that has
	// ended is none.
	until := time.Now().Add(time.Hour)
	g.SetModes([]gate.ModeSwitch{
		{Rule: "login", Mode: policy.Shadow, Until: until},
		{Rule: "", Mode: policy.Enforce, Until: until.Add(time.Minute)},
		{Rule: "tenant", Mode: policy.Shadow, Until: time.Now()},
	})
	got := get().Rules
	if r := got[0]; r.Mode != "shadow" || r.FileMode != "enforce" || r.UntilMS != until.UnixMilli() {
		t.Errorf("the rule that is switched by name: %+v", r)
	}
	if r := got[1]; r.Mode != "enforce" || r.FileMode != "shadow" || r.UntilMS != until.Add(time.Minute).UnixMilli() {
		t.Errorf("the rule that is switched with all: %+v", r)
	}
}

func key(t *testing.T, word string) []identity.Part {
	t.Helper()
	part, err := identity.ParsePart(word)
	if err != nil {
		t.Fatal(err)
	}
	return []identity.Part{part}
}
