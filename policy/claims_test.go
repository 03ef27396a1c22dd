package policy

import (
	"testing"

	"github.com/weirhq/weir"
)

// What is refused before it can be charged leaves nothing among the claims of
// others: not its claims, and not their texts either.
func TestARefusedRequestLeavesNoClaims(t *testing.T) {
	p := compile(t, Options{Rules: []Rule{
		{Name: "first", Key: parts(t, "ip", "header:X-Id"), Limit: weir.PerMinute(5)},
		{Name: "deny", Key: parts(t, "tenant"), Limit: weir.PerMinute(5), OnMissing: Deny},
	}})
	var claims Claims
	claim := func(tenant string) (denied bool) {
		t.Helper()
		var m Match
		if err := p.Claim(get("/"), someone("192.0.2.1", tenant, ""), &m, &claims); err != nil {
			t.Fatal(err)
		}
		return m.Denied != nil
	}
	if claim("acme") || claims.Len() != 2 || len(claims.keys) == 0 {
		t.Fatalf("%d claims, %d bytes of keys: the test is void", claims.Len(), len(claims.keys))
	}
	list, keys, limits := claims.Len(), len(claims.keys), len(claims.limits)
	if !claim("") {
		t.Fatal("not denied: the test is void")
	}
	if claims.Len() != list || len(claims.keys) != keys || len(claims.limits) != limits {
		t.Errorf("%d claims, %d bytes, %d limits after a refusal; before it %d, %d, %d",
			claims.Len(), len(claims.keys), len(claims.limits), list, keys, limits)
	}
}
