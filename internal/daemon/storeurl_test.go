package daemon

import (
	"strconv"
	"testing"

	"github.com/weirhq/weir/internal/redisconn"
	"github.com/weirhq/weir/policy/policyfile"
)

// TestTheFileTakesTheStoresThereAre: what weir policy check says of a store's URL is
// what a daemon says that opens it. The one reads it in policyfile, the other in
// redisconn.
func TestTheFileTakesTheStoresThereAre(t *testing.T) {
	for url, right := range map[string]bool{
		"redis://h": true, "redis://h:1": true, "redis://[::1]:1/2": true, "redis://u:p%40@h/0": true, "rediss://h/15": true,
		"redis+sentinel://a:1,b:2/m": true, "rediss+sentinel://a/m": true, "redis+cluster://a:1,b": true, "rediss+cluster://a": true,
		"valkey://h:1/1": true, "valkeys+cluster://a,b": true, "unix:///run/redis.sock": true,
		"redis://h:0": false, "redis://h:99999": false, "redis://h:x": false, "redis://h/16x": false, "redis://h/-1": false,
		"redis://h/0/1": false, "redis://h/0#x": false, "redis://h?db=1": false, "redis://h:1?db=1": false, "redis://a,b": false,
		"redis://u:p%zz@h": false, "redis://:1": false, "redis+sentinel://a:1,b:2": false, "redis+sentinel://a/m/n": false,
		"redis+cluster://a/3": false, "redis+cluster://a,": false, "redis+cluster://a:1,b:99999": false, "redis+ring://a": false,
		"unix://run/redis.sock": false, "http://h": false, "redis://": false, "redis:h": false, "h:6379": false,
	} {
		if _, _, err := redisconn.Parse(url); (err == nil) != right {
			t.Errorf("%s: opened it is %v", url, err)
		}
		for _, text := range []string{"store: " + strconv.Quote(url), "store: {url: " + strconv.Quote(url) + "}",
			"store: redis://h\nregions: {name: a, peers: {b: " + strconv.Quote(url) + "}}"} {
			if _, err := policyfile.Parse("p.yaml", []byte("limits: []\n"+text)); (err == nil) != right {
				t.Errorf("%s: the file says %v", text, err)
			}
		}
	}
}
