package redisconn

import "testing"

// A socket's path may hold an @, as systemd's instances do; before the path one ends
// the user part.
func TestAnAtInASocketsPath(t *testing.T) {
	for url, want := range map[string]string{
		"unix:///run/redis@1/redis.sock":          "",
		"unix://u:secret@/run/redis@1/redis.sock": "u",
		"unix://u:p%40ss@/run/redis/redis.sock":   "u",
	} {
		o, _, err := Parse(url)
		if err != nil || o.Username != want || o.InitAddress[0][:5] != "/run/" {
			t.Errorf("%s: %q at %v, %v", url, o.Username, o.InitAddress, err)
		}
	}
}
