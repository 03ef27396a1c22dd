package regions

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/testredis"
	"github.com/weirhq/weir/redisstore"
)

// still starts a service that tells nothing of itself, until it is closed, and its
// peer's server.
func still(t *testing.T) (*Service, *testredis.Server) {
	there := testredis.Start(t)
	return startServiceWith(t, "eu", testredis.Start(t), map[string]string{"us": there.URL()}, nil,
		redisstore.Options{}, func(o *Options) { o.Interval = time.Hour }), there
}

// TestTheWaySetsTheRate: what changed in an interval is told by letters that follow
// each other, and waits for no next interval.
func TestTheWaySetsTheRate(t *testing.T) {
	t.Parallel()
	const keys = 12_000 // twice what may be on its way at once
	s, _ := still(t)
	for i := range keys {
		s.take(t, fmt.Sprintf("tenant-%06d", i))
	}
	s.round(context.Background())
	await(t, "all is told", func() bool { return s.Stats().Owed == 0 })
	if st := s.Stats(); st.Told != keys {
		t.Errorf("%d of %d keys were told: %+v", st.Told, keys, st)
	}
}

// TestCloseTellsAll that is due, also where the peer refuses it at first.
func TestCloseTellsAll(t *testing.T) {
	t.Parallel()
	const keys = 8000 // more than may be on its way at once
	s, there := still(t)
	s.farewell = time.Minute // whatever the machine is doing
	there.Must(t, "EVAL", "for i = 1, ARGV[1] do redis.call('XADD', KEYS[1], '*', 'f', 'eu') end return 1", "1", s.key("in"), fmt.Sprint(streamLen))
	for i := range keys {
		s.take(t, fmt.Sprintf("tenant-%06d", i))
	}
	closed := make(chan error)
	go func() { closed <- s.Close() }()
	await(t, "letters are refused", func() bool { return s.Stats().Failed > 0 })
	there.Must(t, "XTRIM", s.key("in"), "MAXLEN", "0")
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if st := s.Stats(); st.Told != keys || st.Owed != 0 {
		t.Errorf("%d of %d keys were told at the end, %d are given up", st.Told, keys, st.Owed)
	}
}

// changed makes keys due in a collection. Their names are long: a letter holds fifteen.
func changed(t *testing.T, e *Exchange, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		e.Add(redisstore.Consumption{Balance: fmt.Sprintf("1:{7}:tmin:%06d%0500d", i, 0), N: 1, Period: 1, Most: 1, Out: 1})
	}
	if err := e.Collect(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// countBooks give every counter an incarnation.
type countBooks struct{ earlyBooks }

func (*countBooks) Tell(_ context.Context, taken []*redisstore.Consumption) error {
	for _, c := range taken {
		c.Incarnation = "fifteen letters"
	}
	return nil
}

// TestAPeerThatIsFarBehindIsCutOff, though it acknowledges letters all the while, and
// is not when it has caught up.
func TestAPeerThatIsFarBehindIsCutOff(t *testing.T) {
	now := time.Duration(1)
	e := NewExchange(&countBooks{}, Settings{Region: "eu", Peers: []string{"us"}, Interval: time.Second, Lag: time.Second, Now: func() time.Duration { return now }})
	const aRound = 200 // which takes longer than the test to tell
	changed(t, e, 0, aRound)
	told := 0
	for second := 1; second <= 12; second++ {
		l := e.Letter("us")
		told += len(l.Taken)
		now += time.Second
		changed(t, e, second*aRound, (second+1)*aRound)
		e.Done(l, true)
		if cut, want := e.Stats().CutOff, second > 4; cut == 1 != want {
			t.Errorf("after %d s, with one letter a second acknowledged, %d peers are cut off", second, cut)
		}
	}
	for l := e.Letter("us"); l != nil; l = e.Letter("us") {
		told += len(l.Taken)
		e.Done(l, true)
	}
	if st := e.Stats(); st.CutOff != 0 || st.Owed != 0 || told != 13*aRound {
		t.Errorf("with all told, %d changes: %+v", told, st)
	}
}

// TestTheOldestGoesFirst, also after it was lost on the way; and a key that changed
// meanwhile goes once.
func TestTheOldestGoesFirst(t *testing.T) {
	now := time.Duration(1)
	e := NewExchange(&countBooks{}, Settings{Region: "eu", Peers: []string{"us"}, Interval: time.Second, Lag: time.Second, Now: func() time.Duration { return now }})
	changed(t, e, 0, 3)
	lost := e.Letter("us")
	now += time.Second
	changed(t, e, 1, 1000)
	e.Done(lost, false)
	now += time.Second
	changed(t, e, 2000, 2300)
	if e.Stats().CutOff != 0 {
		t.Error("cut off too soon")
	}
	now += 3 * time.Second
	if e.Stats().CutOff != 1 {
		t.Error("what was lost on the way is not old")
	}
	told := map[string]int{}
	l := e.Letter("us")
	if e.Letter("us") != nil {
		t.Error("two letters at once go to a peer that did not acknowledge the last")
	}
	for first := true; l != nil; l, first = e.Letter("us"), false {
		for _, c := range l.Taken {
			told[c.Balance]++
			if first && c.Balance >= "1:{7}:tmin:002000" {
				t.Fatalf("the first letter has %s, which changed last", c.Balance)
			}
		}
		e.Done(l, true)
	}
	for balance, n := range told {
		if n != 1 {
			t.Errorf("%s was told %d times", balance, n)
		}
	}
	if st := e.Stats(); len(told) != 1300 || st.Owed != 0 || st.CutOff != 0 {
		t.Errorf("%d keys told: %+v", len(told), st)
	}
}

// TestKeysAreKeptTrackOfUntilAllKnow: over the bound debits are forgotten and counted, and
// there is room again when each peer has acknowledged what waited.
func TestKeysAreKeptTrackOfUntilAllKnow(t *testing.T) {
	e := NewExchange(&countBooks{}, Settings{Region: "eu", Peers: []string{"us", "asia"}, Interval: time.Second, MostKeys: 10})
	changed(t, e, 0, 12)
	changed(t, e, 0, 10) // changed again: no more than they were
	if st := e.Stats(); st.Owed != 10 || st.Forgotten != 2 {
		t.Errorf("over the bound: %+v", st)
	}
	l := e.Letter("us")
	e.Done(l, true)
	if st := e.Stats(); len(l.Taken) != 10 || st.Owed != 10 {
		t.Errorf("one peer knows of %d: %+v", len(l.Taken), st)
	}
	l = e.Letter("asia")
	changed(t, e, 0, 1) // while it is on its way
	e.Done(l, true)
	if st := e.Stats(); st.Owed != 1 {
		t.Errorf("both know of all but one change: %+v", st)
	}
	for _, peer := range []string{"us", "asia"} {
		e.Done(e.Letter(peer), true)
	}
	changed(t, e, 20, 30)
	if st := e.Stats(); st.Owed != 10 || st.Forgotten != 2 {
		t.Errorf("with room again: %+v", st)
	}
	alone := NewExchange(&countBooks{}, Settings{Region: "eu", Interval: time.Second, MostKeys: 10})
	for range 3 {
		changed(t, alone, 0, 10)
	}
	if st := alone.Stats(); st.Owed != 0 || st.Forgotten != 0 {
		t.Errorf("with nobody to tell: %+v", st)
	}
}
