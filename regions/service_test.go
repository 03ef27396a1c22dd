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
	return startServiceWith(t, region, server, peers, faults, redisstore.Options{}, func(*Options) {})
}

// startServiceWith is startService with what a test changes.
func startServiceWith(t *testing.T, region string, server *testredis.Server, peers map[string]string, faults *lines, books redisstore.Options, change func(*Options)) *Service {
	t.Helper()
	books.Timeout = time.Second
	store, err := redisstore.Open(server.URL(), books)
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
	change(&o)
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

// await asks until something holds, patiently.
func await(t *testing.T, what string, reached func() bool) {
	t.Helper()
	awaitFor(t, 20*time.Second, what, reached)
}

func awaitFor(t *testing.T, patient time.Duration, what string, reached func() bool) {
	t.Helper()
	late := time.After(patient)
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

// TestSharesAreThereSoon: regions that start together find their shares long before a
// beat has gone by; and one more instance has its region's when Start returns.
func TestSharesAreThereSoon(t *testing.T) {
	t.Parallel()
	servers := map[string]*testredis.Server{"eu": testredis.Start(t), "us": testredis.Start(t), "asia": testredis.Start(t)}
	const beat = 40 * time.Second // five times what it takes, and longer than a busy machine stands still
	begin := func(name string) *Service {
		peers := map[string]string{}
		for other, server := range servers {
			if other != name {
				peers[other] = server.URL()
			}
		}
		s := startServiceWith(t, name, servers[name], peers, nil, redisstore.Options{}, func(o *Options) { o.ShareBeat = beat })
		Front(s.o.Store, s.Exchange).Share(map[string]policy.Sharing{"rule": {Scope: policy.ScopeShare, Refill: time.Second}})
		return s
	}
	began := time.Now()
	all := []*Service{begin("eu"), begin("us"), begin("asia")}
	awaitFor(t, beat, "every region holds its share", func() bool {
		return !slices.ContainsFunc(all, func(s *Service) bool { return !s.shares.holds() })
	})
	if took := time.Since(began); took > beat {
		t.Errorf("every region held its share after %s", took)
	}
	if pause := all[0].keeper.pause(); pause != beat {
		t.Errorf("with its share held a region looks after it every %s", pause)
	}
	holds := false
	for n := 0; n < 3 && !holds; n++ { // a server on a busy machine may be late once
		holds = begin("eu").shares.holds()
	}
	if !holds {
		t.Error("an instance that starts holds nothing of what its region does")
	}
}

// TestCloseWaitsForNobody: a peer that takes messages and acknowledges none keeps no
// region from closing for as long as a letter waits: one that another instance sent
// before still does. What is given up is told, and closing twice is once.
func TestCloseWaitsForNobody(t *testing.T) {
	t.Parallel()
	server := testredis.Start(t)
	away := testredis.StartProxy(t, testredis.Start(t).Addr)
	faults := &lines{}
	other := startService(t, "eu", server, map[string]string{"us": away.URL()}, nil)
	s := startService(t, "eu", server, map[string]string{"us": away.URL()}, faults)
	Front(s.o.Store, s.Exchange).Share(map[string]policy.Sharing{"rule": {Scope: policy.ScopeShare, Refill: time.Second}})
	for _, one := range []*Service{other, s} {
		one.take(t, "k")
		await(t, "a letter is acknowledged", func() bool { return one.Stats().Told > 0 })
	}
	away.Deaf(true)
	for _, one := range []*Service{other, s} {
		one.take(t, "k")
		await(t, "a letter is on its way", func() bool { st := one.Stats(); return st.Messages > 1 && st.Owed > 0 })
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if other.Stats().Failed > 0 { // it takes three fifths of that, and the rest is for a busy machine
		t.Errorf("closing took longer than the %s that a letter waits", patience)
	}
	if want := "region us does not hear what was taken last: 1 changed keys are given up"; faults.count(want) != 1 {
		t.Errorf("want one line %q in %q", want, faults.all)
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
	for i := range balances { // ordinary ones, of which each letter takes as many as fit
		e.due(&redisstore.Consumption{Balance: fmt.Sprintf("1:{7}:w:%06d", i), N: 1000, Period: 60e6, Most: 1000, Incarnation: "fifteen letters", Out: 1}, 1)
	}
	for l := e.Letter("us"); l != nil; l = e.Letter("us") {
		one := len(l.Payload()) / len(l.Taken)
		if full := len(l.Payload()); len(e.peers["us"].first.keys) > 0 && full < LetterBytes-2*one {
			t.Fatalf("a letter of %d bytes leaves room for more of %d each", full, one)
		}
		e.Done(l, true)
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
	secret, good := s.o.Store.Fingerprint(), string(encode(nil))
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
	s.faults.mu.Lock()
	s.faults.calm = 0
	s.faults.mu.Unlock()
	await(t, "the stranger is heard of no more", func() bool { return faults.count("a region that is not among peers sends messages: <nil>") == 1 })
}
