package regions

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/internal/testredis"
	"github.com/weirhq/weir/policy"
	"github.com/weirhq/weir/redisstore"
)

// lines is what a service told of faults.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) tell(what string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, fmt.Sprint(what, ": ", err))
}

func (l *lines) count(part string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range l.all {
		if strings.Contains(one, part) {
			n++
		}
	}
	return n
}

// startService starts an instance of a region; it ends with the test.
func startService(t *testing.T, region string, server *testredis.Server, peers map[string]string, faults *lines) *Service {
	t.Helper()
	store, err := redisstore.Open(server.URL(), redisstore.Options{Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Region: region, Peers: map[string]Peer{}, Interval: 20 * time.Millisecond, Store: store, URL: server.URL()}
	for name, url := range peers {
		o.Peers[name] = Peer{URL: url}
	}
	if faults != nil {
		o.OnError = faults.tell
	}
	s, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.Close()
		_ = store.Close()
	})
	return s
}

// take takes a unit of a limit that regions share.
func (s *Service) take(t *testing.T, key string) {
	t.Helper()
	c := weir.PerMinute(1000).Charge(key)
	q := c.Limit.Quota()
	if b := (&weir.Bill{Charges: []weir.Charge{c}}); b.Check() == nil {
		s.Add(s.o.Store.Consumed(&b.Charges[0], &q, &b.Balances()[0].View, 1))
	}
}

func await(t *testing.T, what string, reached func() bool) {
	t.Helper()
	late := time.After(20 * time.Second)
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for !reached() {
		select {
		case <-again.C:
		case <-late:
			t.Fatalf("never: %s", what)
		}
	}
}

// TestSharesAreThereSoon: three regions that start find their shares before half
// a beat has gone by, and one more instance has its region's when Start returns. The
// machine of the test is no quiet one, so one of some rounds has to be that fast.
func TestSharesAreThereSoon(t *testing.T) {
	t.Parallel()
	servers := map[string]*testredis.Server{"eu": testredis.Start(t), "us": testredis.Start(t), "asia": testredis.Start(t)}
	begin := func(name string) *Service {
		peers := map[string]string{}
		for other, server := range servers {
			if other != name {
				peers[other] = server.URL()
			}
		}
		s := startService(t, name, servers[name], peers, nil)
		Front(s.o.Store, s.Exchange).Share(map[string]policy.Sharing{"rule": {Scope: policy.ScopeShare, Refill: time.Second}})
		return s
	}
	best := time.Hour
	for range 5 {
		for _, server := range servers {
			server.Must(t, "FLUSHALL")
		}
		all := []*Service{begin("eu"), begin("us"), begin("asia")}
		began := time.Now()
		await(t, "every region holds its share", func() bool {
			return !slices.ContainsFunc(all, func(s *Service) bool { return !s.shares.holds() })
		})
		best = min(best, time.Since(began))
		if again := begin("eu"); !again.shares.holds() {
			t.Error("an instance that starts holds nothing of what its region does")
		}
		for _, s := range all {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if best < shareBeat/2 {
			break
		}
	}
	t.Logf("shares were there after %s", best)
	if best >= shareBeat/2 {
		t.Errorf("at best shares were there after %s, no sooner than without haste", best)
	}
}

// TestCloseWaitsForNobody: a peer that takes messages and acknowledges none keeps
// no region from closing for as long as a letter waits, and closing twice is once.
func TestCloseWaitsForNobody(t *testing.T) {
	t.Parallel()
	server := testredis.Start(t)
	away := testredis.StartProxy(t, testredis.Start(t).Addr)
	s := startService(t, "eu", server, map[string]string{"us": away.URL()}, nil)
	Front(s.o.Store, s.Exchange).Share(map[string]policy.Sharing{"rule": {Scope: policy.ScopeShare, Refill: time.Second}})
	s.take(t, "k")
	await(t, "a letter is acknowledged", func() bool { return s.Stats().Told > 0 })
	away.Deaf(true)
	s.take(t, "k")
	await(t, "a letter is on its way", func() bool { st := s.Stats(); return st.Messages > 1 && st.Owed > 0 })
	began := time.Now()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	took := time.Since(began)
	t.Logf("closing took %s", took)
	if took >= patience { // it takes three fifths of that, and the rest is for a busy machine
		t.Errorf("closing took %s; a letter waits for %s", took, patience)
	}
	if err := s.Close(); err != nil {
		t.Errorf("closing once more: %v", err)
	}
	if got := server.Must(t, "XINFO", "CONSUMERS", s.key("in"), group); strings.Contains(got, s.id) {
		t.Errorf("an instance that was closed is still in the group: %s", got)
	}
}

// TestInstancesThatAreGoneLeave the group, and none that has letters to finish.
func TestInstancesThatAreGoneLeave(t *testing.T) {
	t.Parallel()
	server := testredis.Start(t)
	s := startService(t, "eu", server, map[string]string{"us": testredis.Start(t).URL()}, nil)
	await(t, "the group is there", func() bool {
		reply, err := server.Do("XINFO", "GROUPS", s.key("in"))
		return err == nil && fmt.Sprint(reply) != "[]"
	})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	server.Must(t, "XADD", s.key("in"), "*", "f", "us")
	server.Must(t, "XREADGROUP", "GROUP", group, "busy", "COUNT", "1", "STREAMS", s.key("in"), ">")
	server.Must(t, "XGROUP", "CREATECONSUMER", s.key("in"), group, "gone")
	server.Must(t, "EVAL", leaveText, "1", s.key("in"), group, "", "3600000")
	if got := server.Must(t, "XINFO", "CONSUMERS", s.key("in"), group); !strings.Contains(got, "gone") {
		t.Errorf("one that was silent for a moment was taken out: %s", got)
	}
	await(t, "it is silent", func() bool {
		server.Must(t, "EVAL", leaveText, "1", s.key("in"), group, "", "1")
		return !strings.Contains(server.Must(t, "XINFO", "CONSUMERS", s.key("in"), group), "gone")
	})
	server.Must(t, "EVAL", leaveText, "1", s.key("in"), group, "busy", "0")
	if got := server.Must(t, "XINFO", "CONSUMERS", s.key("in"), group); !strings.Contains(got, "busy") {
		t.Errorf("one with letters to finish was taken out: %s", got)
	}
}

// TestAFullStreamLosesNothing: what a region that nobody runs is told stays with
// who tells it, over a bound of bytes; and arrives when there is room.
func TestAFullStreamLosesNothing(t *testing.T) {
	t.Parallel()
	there := testredis.Start(t)
	faults := &lines{}
	s := startService(t, "eu", testredis.Start(t), map[string]string{"us": there.URL()}, faults)
	there.Must(t, "EVAL", "for i = 1, ARGV[1] do redis.call('XADD', KEYS[1], '*', 'f', 'asia') end return 1", "1", s.key("in"), fmt.Sprint(streamLen))
	s.take(t, "k")
	await(t, "letters are refused", func() bool { return s.Stats().Failed > 3 })
	if n := there.Must(t, "XLEN", s.key("in")); n != fmt.Sprint(streamLen) {
		t.Errorf("%s letters wait in a full stream of %d", n, streamLen)
	}
	if st := s.Stats(); st.Owed != 1 || st.Told != 0 {
		t.Errorf("what was refused is not due any more: %+v", st)
	}
	if n := faults.count("region us does not take messages"); n != 1 {
		t.Errorf("%d lines of one fault: %q", n, faults.all)
	}
	there.Must(t, "XTRIM", s.key("in"), "MAXLEN", "0")
	await(t, "it arrives", func() bool { return there.Must(t, "XLEN", s.key("in")) == "1" })
	await(t, "it is known to have", func() bool { return s.Stats().Owed == 0 })
}

// TestLettersAreBounded in bytes, whatever the names of balances are.
func TestLettersAreBounded(t *testing.T) {
	e := NewExchange(&earlyBooks{}, Settings{Region: "eu", Peers: []string{"us"}, Interval: time.Second})
	const balances, most = 3000, 1<<53 - 1
	for i := range balances {
		c := redisstore.Consumption{Balance: fmt.Sprintf("1:{7}:w:%0*d", i%1100, i), Kind: 3, N: 1e9, Period: 366 * 24 * 3600 * 1e6, Most: 1e9, Start: most, Stop: most, Out: most, Back: most}
		c.Incarnation = strings.Repeat("i", 15)
		e.due(&c, 1)
	}
	told, largest := 0, 0
	for l := e.Letter("us"); l != nil; l = e.Letter("us") {
		told, largest = told+len(l.Taken), max(largest, len(l.Payload()))
		e.Done(l, true)
	}
	if told != balances || largest > LetterBytes || largest < LetterBytes*3/4 {
		t.Errorf("%d of %d balances told in letters of up to %d bytes; the bound is %d", told, balances, largest, LetterBytes)
	}
}

// TestLettersThatAreNotUnderstood are taken away and told of once, each peer's by
// itself, however many of both kinds come.
func TestLettersThatAreNotUnderstood(t *testing.T) {
	t.Parallel()
	server := testredis.Start(t)
	faults := &lines{}
	there := testredis.Start(t).URL()
	s := startService(t, "eu", server, map[string]string{"us": there, "asia": there}, faults)
	secret, good := s.o.Store.Fingerprint(), string(encode(nil, nil))
	for range 20 {
		for _, letter := range [][3]string{{"us", "another", good}, {"asia", secret, good}, {"asia", secret, "unknown"}, {"mars", secret, good}, {"us", secret, good}} {
			server.Must(t, "XADD", s.key("in"), "*", "f", letter[0], "k", letter[1], "b", letter[2])
		}
	}
	await(t, "all are taken away", func() bool { return server.Must(t, "XLEN", s.key("in")) == "0" })
	for _, want := range []string{"messages of region us are not understood: it has another key secret", "messages of region asia are not understood: a region's message does not parse", "a region that is not among peers"} {
		if faults.count(want) != 1 {
			t.Errorf("want one line %q in %q", want, faults.all)
		}
	}
	if len(faults.all) != 3 {
		t.Errorf("%q", faults.all)
	}
}
