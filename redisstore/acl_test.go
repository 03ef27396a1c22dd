package redisstore_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/internal/testredis"
	"github.com/weirhq/weir/redisstore"
	"github.com/weirhq/weir/verify"
)

// TestTheACLInTheDocsIsEnough: a user with what doc.go names, and no more, is denied
// nothing, whatever the store, its watch and its count of instances do.
func TestTheACLInTheDocsIsEnough(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(text), "An ACL user needs")
	list, _, _ = strings.Cut(list, "and, in a cluster")
	user := []string{"ACL", "SETUSER", "weir", "on", ">pw", "~acl*", "~suite*"}
	for _, command := range regexp.MustCompile(`[A-Z]{3,}`).FindAllString(list, -1) {
		user = append(user, "+"+strings.ToLower(command))
	}
	if len(user) < 20 {
		t.Fatalf("few commands are named: %q", user)
	}
	server := testredis.Start(t)
	server.Must(t, user...)
	url := "redis://weir:pw@" + server.Addr
	if report, err := verify.Run(t.Context(), opener(url+"/0"), verify.Options{Histories: 50}); err != nil || report.Failed > 0 {
		t.Errorf("%v, %+v", err, report)
	}
	store, err := redisstore.Open(url+"/1", redisstore.Options{Prefix: "acl", Timeout: patient})
	if err != nil {
		t.Fatal(err)
	}
	l := limiterOn(t, store)
	w := store.Watch(nil)
	beats := store.Heartbeats()
	until(t, "the instance is counted", func() bool { return beats.Instances() == 1 })
	limit := weir.PerMinute(5)
	if d, err := l.Allow(t.Context(), "user:1", limit); err != nil || d.Source != "redis" {
		t.Error(d, err)
	}
	for _, end := range []func() error{w.Close, beats.Close} {
		if err := end(); err != nil {
			t.Error(err)
		}
	}
	denied, err := server.Do("ACL", "LOG")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range denied.([]any) {
		t.Error("denied: ", fmt.Sprint(entry))
	}
}
