package gate

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/identity"
	"github.com/weirhq/weir/policy"
)

// tenants is a Directory of tenants with limits of their own.
type tenants map[string]identity.TenantRecord

func (tenants) APIKey(context.Context, string) (identity.KeyRecord, bool, error) {
	return identity.KeyRecord{Tenant: "acme"}, true, nil
}

func (t tenants) Tenant(_ context.Context, id string) (identity.TenantRecord, bool, error) {
	r, ok := t[id]
	return r, ok, nil
}

// A tenant's own limit is blocked and reset by an instance that has not yet
// decided anything under it.
func TestStepInBeforeATenantWasSeen(t *testing.T) {
	own := identity.TenantRecord{Limits: map[string]string{"r": "2/h"}}
	lookups, err := identity.NewLookups(tenants{"acme": own}, identity.LookupOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for where, config := range map[string]identity.Config{
		"file":      {Tenants: map[string]identity.TenantRecord{"acme": own}, APIKeys: identity.APIKeys{Keys: map[string]identity.KeyRecord{"k": {Tenant: "acme"}}}},
		"directory": {APIKeys: identity.APIKeys{Lookups: lookups}},
	} {
		config.APIKeys.Header = "X-Api-Key"
		r, err := identity.NewResolver(config)
		if err != nil {
			t.Fatal(err)
		}
		var now clock
		l, ctx := limiter(t, &now), context.Background()
		rule := policy.Rule{Name: "r", Key: key(t, "tenant"), Limit: limit(t, "60/min")}
		here, there := New(l, r, compiled(t, rule)), New(l, r, compiled(t, rule))
		parts, c := map[string]string{"tenant": "acme"}, call("GET", "/", "192.0.2.1", "k")
		if err := here.Block(ctx, "r", parts, time.Minute); err != nil {
			t.Fatal(err)
		}
		if v := decide(t, there, c); v.Bill.Reason != weir.Blocked {
			t.Errorf("%s: blocked elsewhere, and answered %+v", where, v.Bill.Decision)
		}
		if err := New(l, r, compiled(t, rule)).Block(ctx, "r", parts, 0); err != nil {
			t.Fatal(err)
		}
		decide(t, there, c)
		decide(t, there, c)
		if err := New(l, r, compiled(t, rule)).Reset(ctx, "r", parts); err != nil {
			t.Fatal(err)
		}
		if v := decide(t, there, c); !v.Bill.Allowed {
			t.Errorf("%s: reset elsewhere, and answered %+v", where, v.Bill.Decision)
		}
	}
}

// An API key is counted by its hash: the key itself names no balance, and must
// not be taken for done.
func TestStepInByAPIKey(t *testing.T) {
	var now clock
	g, ctx := New(limiter(t, &now), resolver(t, ""), compiled(t, policy.Rule{Name: "r", Key: key(t, "api_key"), Limit: limit(t, "2/h")})), context.Background()
	v := decide(t, g, call("GET", "/", "192.0.2.1", "k-acme"))
	for _, given := range []string{"k-acme", "00ff", v.Caller.APIKey + "0"} {
		if err := g.Block(ctx, "r", map[string]string{"api_key": given}, time.Minute); err == nil || !strings.Contains(err.Error(), "SHA-256") || strings.Contains(err.Error(), given) {
			t.Errorf("%s: %v", given, err)
		}
	}
	for _, given := range []string{v.Caller.APIKey, strings.ToUpper(v.Caller.APIKey), "sha256:" + v.Caller.APIKey} {
		if err := g.Block(ctx, "r", map[string]string{"api_key": given}, time.Minute); err != nil {
			t.Fatal(err)
		}
		if v := decide(t, g, call("GET", "/", "192.0.2.1", "k-acme")); v.Bill.Reason != weir.Blocked {
			t.Errorf("%s: %+v", given, v.Bill.Decision)
		}
		if err := g.Block(ctx, "r", map[string]string{"api_key": given}, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Block(ctx, "r", map[string]string{"api_key": identity.NoValue, "ip": "192.0.2.1"}, time.Minute); err != nil {
		t.Errorf("callers without a key: %v", err)
	}
}
