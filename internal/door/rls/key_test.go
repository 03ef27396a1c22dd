package rls

import "testing"

// What stands in Redis has the key's form, so the form is part of what an upgrade
// keeps.
func TestKeyText(t *testing.T) {
	if key := string(appendEntry(appendEntry(nil, "k", ownValue, "v"), "path", sharedValue, "/a*")); key != "\x01k=\x01v\x04path*\x03/a*" {
		t.Errorf("the key is %q", key)
	}
	long := string(make([]byte, 300))
	for _, c := range []struct{ key, want string }{
		{"\x01k=\x01v\x04path*\x03/a*", "k=v path=/a*"},
		{"\x01k=\x00", "k="},
		{string(appendEntry(nil, "k", ownValue, long)), "k=" + long},
	} {
		if got, ok := KeyText(c.key); !ok || got != c.want {
			t.Errorf("%q: %q, %v", c.key, got, ok)
		}
	}
	for _, key := range []string{"", "user:42", "\x01k", "\x01k=", "\x01k=\x02v", "\x01k+\x01v", "\x01k=\x01v\x00", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"} {
		if got, ok := KeyText(key); ok {
			t.Errorf("%q is a key: %q", key, got)
		}
	}
}
