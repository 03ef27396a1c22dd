package stream

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/testredis"
)

// A refusal is found in a flood: what stands in the stream before it is more than is
// looked through. The case of its ID does not matter.
func TestFindInAFlood(t *testing.T) {
	server := testredis.Start(t)
	client := clientOf(t, server)
	const at = 1_700_000_000_000
	id := strings.Repeat("0", 12-len(strconv.FormatInt(at, 16))) + strconv.FormatInt(at, 16) + "00000000000000000abc"
	e := Event{ID: id, TimeMS: at, Rule: "r", Reason: "limited", Weight: 1}
	flood := `for i = 1, tonumber(ARGV[1]) do redis.call("XADD", KEYS[1], ARGV[2] .. "-" .. i, "id", "x") end return 1`
	add := func(ms int64, n int) {
		t.Helper()
		err := client.Do(t.Context(), client.B().Eval().Script(flood).Numkeys(1).Key("events").Arg(strconv.Itoa(n), strconv.FormatInt(ms, 10)).Build()).Error()
		if err != nil {
			t.Fatal(err)
		}
	}
	sink, err := ToRedis(server.URL(), RedisOptions{Key: "events"})
	if err != nil {
		t.Fatal(err)
	}
	s := New(sink, Options{})
	t.Cleanup(func() { _ = s.Close() })
	find := func(want bool) {
		t.Helper()
		for _, id := range []string{id, strings.ToUpper(id)} {
			if found, ok := s.Find(context.Background(), id); ok != want || ok && found.Rule != "r" {
				t.Errorf("%s: %+v %v, want %v", id, found, ok, want)
			}
		}
	}
	for _, written := range []int64{at + 20, at - 20} { // the second by a clock that is behind
		if err := client.Do(t.Context(), client.B().Del().Key("events").Build()).Error(); err != nil {
			t.Fatal(err)
		}
		add(at-4000, findPages*findPage+1)
		find(false)
		if err := client.Do(t.Context(), client.B().Arbitrary("XADD").Keys("events").Args(strconv.FormatInt(written, 10)+"-1").Args(e.Fields()...).Build()).Error(); err != nil {
			t.Fatal(err)
		}
		add(at+4000, 10)
		find(true)
	}
}
