package regions_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/policy"
)

// Three regions, each a process with a server of its own, a lag of 120 ms between
// any two. WEIR_REGIONS_LONG=1 (make regions) parts them for 30 s, else for 2.

func partition() time.Duration {
	if os.Getenv("WEIR_REGIONS_LONG") != "" {
		return 30 * time.Second
	}
	return 2 * time.Second
}

func parse(t *testing.T, text string) weir.Limit {
	t.Helper()
	l, err := weir.ParseLimit(text)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// beyond returns by how much the servers of all regions show more of key than
// limit admits in elapsed.
func (w *world) beyond(limit weir.Limit, key string, elapsed time.Duration) int64 {
	return w.total(key) - limit.Most() - int64(float64(limit.Units())*float64(elapsed)/float64(limit.Period())) - 1
}

func TestThreeRegions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, policy.ScopeGlobal, nil)
	t.Run("one limit, with loss", w.oneLimit)
	t.Run("the time to know", w.timeToKnow)
	t.Run("a partition", w.partition)
	t.Run("agreement after quiet", w.agreement)
	t.Run("bytes for a key", w.bytesForAKey)
	t.Run("nothing leaks", func(*testing.T) {
		if left := w.leaks(); left != "" {
			t.Error(left)
		}
	})
}

const burst = "20/s burst=40"

func (w *world) steady(keys ...string) (worst, admitted int64) {
	began := time.Now()
	admitted = w.load(burst, keys, 40, 3*time.Second)
	elapsed := time.Since(began)
	limit := parse(w.t, burst)
	worst = -1 << 62
	for _, key := range keys {
		worst = max(worst, w.beyond(limit, key, elapsed))
	}
	return worst, admitted
}

func (w *world) oneLimit(t *testing.T) {
	losing, lose := context.WithCancel(context.Background())
	lost := make(chan bool)
	go func() {
		defer close(lost)
		tick := time.NewTicker(300 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-tick.C: // messages and acknowledgements on the way are lost
				w.ways[[2]string{w.names[n%3], w.names[(n+1+n/3%2)%3]}].Cut()
			case <-losing.Done():
				return
			}
		}
	}()
	worst, admitted := w.steady("a", "b")
	lose()
	<-lost
	bound := w.figures.Overshoot(parse(t, burst))
	if worst > bound {
		t.Errorf("%d admitted beyond the limit; the bound is %d", worst, bound)
	}
	t.Logf("%d beyond the limit; the bound is %d", worst, bound)
	if _, err := w.converge([]string{"a", "b"}, 20*time.Second); err != nil {
		t.Error(err)
	}
	if got := w.total("a", "b"); got < admitted || got > admitted+w.unsure {
		t.Errorf("%d are in the counters of the servers and %d were admitted", got, admitted)
	}
}

// timeToKnow: the machine of the test is no quiet one, so of some rounds one has
// to be as fast as is promised.
func (w *world) timeToKnow(t *testing.T) {
	const promised = 3 * (interval + lag)
	best := time.Hour
	for round := range 12 {
		key := fmt.Sprint("know", round)
		admitted := w.load("1000/hour", []string{key}, 50, 100*time.Millisecond)
		took, err := w.know([]string{key}, max(1, admitted), 20*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if best = min(best, took); best <= promised {
			break
		}
	}
	t.Logf("all knew after %s; 3·(interval + lag) is %s", best, promised)
	if best > promised {
		t.Errorf("at best all knew after %s, later than 3·(interval + lag) = %s", best, promised)
	}
}

// A limit whose bound is small against what a partition would let through. It is
// taken from in large pieces, so that a busy machine asks for it all the same.
const (
	narrow = "1000/s burst=100"
	piece  = 50
)

func (w *world) parted(key string) (beyond int64) {
	ask := func(length time.Duration) {
		w.carry(order{Do: "load", Limit: narrow, Keys: []string{key}, Rate: 40, Cost: piece, For: length})
	}
	began := time.Now()
	ask(500 * time.Millisecond)
	w.cut(true)
	ask(partition())
	w.cut(false)
	ask(500 * time.Millisecond)
	return w.beyond(parse(w.t, narrow), key, time.Since(began))
}

func (w *world) partition(t *testing.T) {
	beyond := w.parted("parted")
	bound := w.figures.Overshoot(parse(t, narrow))
	took := map[string]int64{}
	for _, name := range w.names {
		took[name], _ = w.counters(name, "parted")
	}
	t.Logf("by the servers %v were taken, %d beyond the limit; the bound with one partition is %d", took, beyond, 2*bound)
	if beyond > 2*bound {
		t.Errorf("%d admitted beyond the limit; the bound with one partition is %d", beyond, 2*bound)
	}
	if _, err := w.converge([]string{"parted"}, 20*time.Second); err != nil {
		t.Error(err)
	}
	if w.guessed() == 0 {
		t.Error("no region noticed that it was cut off")
	}
}

func (w *world) agreement(t *testing.T) {
	w.agreeOn(t, "1000/day algorithm=fixed_window", "1000/day algorithm=sliding_window", "1000/day algorithm=sliding_log", "1000/year algorithm=fixed_window tz=Europe/Paris", "1000/day")
}

// agreeOn takes under each limit in every region and holds what each has left, after
// quiet, against what the servers' counters say. Where a busy machine made a region
// look cut off, what was guessed of it is debited too: then other keys are tried.
func (w *world) agreeOn(t *testing.T, limits ...string) {
	for i, text := range limits {
		for try := range 5 {
			before := w.guessed()
			differ := w.differ(t, text, fmt.Sprint("agree", i, "-", try))
			if differ == "" {
				break
			}
			if w.guessed() == before || try == 4 {
				t.Errorf("%s: %s", text, differ)
				break
			}
		}
	}
}

// guessed returns how many units all regions debited for some that seemed cut off.
func (w *world) guessed() (units int64) {
	for _, name := range w.names {
		units += w.regions[name].do(order{Do: "stats"}).Stats.Guessed
	}
	return units
}

func (w *world) differ(t *testing.T, text, key string) string {
	w.load(text, []string{key}, 20, 200*time.Millisecond)
	if _, err := w.converge([]string{key}, 20*time.Second); err != nil {
		t.Error(err)
	}
	want := int64(1000) - w.total(key)
	if want == 1000 {
		return "nothing was taken"
	}
	for _, name := range w.names {
		// A bucket gains a unit in 86 s, and a region's begins to when it is first debited.
		if got := w.regions[name].do(order{Do: "peek", Limit: text, Keys: []string{key}}).Remaining[key]; got != want && got != want+1 {
			return fmt.Sprintf("%s has %d left, want %d", name, got, want)
		}
	}
	return ""
}

// mostBytes is what a changed key of an ordinary length costs, in a letter to one
// peer.
const mostBytes = 90

// owed returns how many keys are still to be told to some region.
func (w *world) owed() (keys int) {
	for _, name := range w.names {
		keys += w.regions[name].do(order{Do: "stats"}).Stats.Owed
	}
	return keys
}

// bytes returns what each key costs that is told to one peer.
func (w *world) bytes(t *testing.T, form string) int64 {
	keys := make([]string, 100)
	for i := range keys {
		keys[i] = fmt.Sprintf(form, i)
	}
	count := func() (bytes, told int64) {
		for _, name := range w.names {
			s := w.regions[name].do(order{Do: "stats"}).Stats
			bytes, told = bytes+s.Bytes, told+s.Told
		}
		return bytes, told
	}
	bytesBefore, toldBefore := count()
	w.load("1000/min", keys, 2, time.Second)
	if _, err := w.converge(keys[:3], 20*time.Second); err != nil {
		t.Fatal(err)
	}
	if !eventually(func() bool { return w.owed() == 0 }) { // what is on its way has its bytes counted, and is not told
		t.Errorf("%d keys are still to be told", w.owed())
	}
	bytes, told := count()
	bytes, told = bytes-bytesBefore, told-toldBefore
	if told < int64(len(keys)) {
		t.Fatalf("%d changes were told of %d keys", told, len(keys))
	}
	return bytes / told
}

func (w *world) bytesForAKey(t *testing.T) {
	// A letter that is not acknowledged in time is sent again and counts again: on a
	// busy machine one of a few times shows what a key costs.
	usual, long := w.bytes(t, "tenant-%06d"), w.bytes(t, "tenant-%0100d")
	for try := range 4 {
		if usual > mostBytes {
			usual = min(usual, w.bytes(t, fmt.Sprintf("again-%d-", try)+"%06d"))
		}
	}
	t.Logf("%d bytes for a changed key and peer; %d for keys of 107 bytes", usual, long)
	if usual > mostBytes || long <= mostBytes {
		t.Errorf("a changed key costs %d bytes and a long one %d; want at most %d, and more", usual, long, mostBytes)
	}
}

// leaks says what is left when nobody asks any more, or "".
func (w *world) leaks() string {
	late := time.NewTimer(20 * time.Second)
	defer late.Stop()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		left := w.left()
		if left == "" {
			return ""
		}
		select {
		case <-late.C:
			return left
		case <-again.C:
		}
	}
}

func (w *world) left() string {
	ctx := context.Background()
	for _, name := range w.names {
		s := w.regions[name].do(order{Do: "stats"}).Stats
		if s.Owed > 0 {
			return fmt.Sprintf("%s keeps track of %d keys that are still to be told", name, s.Owed)
		}
		c := w.clients[name]
		const stream = "weir1:{regions}in"
		if n, err := c.Do(ctx, c.B().Xlen().Key(stream).Build()).AsInt64(); err != nil || n > 0 {
			return fmt.Sprintf("%s: %d letters are left in the stream, %v", name, n, err)
		}
		keys, err := c.Do(ctx, c.B().Keys().Pattern("*").Build()).AsStrSlice()
		if err != nil {
			return err.Error()
		}
		for _, key := range keys {
			ttl, err := c.Do(ctx, c.B().Pttl().Key(key).Build()).AsInt64()
			if ttl == -1 && !strings.HasPrefix(key, "weir1:{") || ttl == -1 && strings.Contains(key, "}:") || err != nil {
				return fmt.Sprintf("%s: %s lives for ever, %v", name, key, err)
			}
		}
	}
	return ""
}

// The checks above, each with its fault planted.

// found has a planted fault shown by one of a few rounds: on a busy machine regions
// may ask for less than would show it.
func found(t *testing.T, bound int64, round func(key string) (beyond int64)) {
	t.Helper()
	for n := range 5 {
		beyond := round(fmt.Sprint("planted", n))
		t.Logf("%d beyond the limit; the bound is %d", beyond, bound)
		if beyond > bound {
			return
		}
	}
	t.Errorf("nothing beyond the bound of %d was found", bound)
}

func TestDeafRegionsAreFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t, policy.ScopeGlobal, func(s *setup) { s.Deaf = true })
	limit := parse(t, narrow)
	found(t, w.figures.Overshoot(limit), func(key string) int64 {
		began := time.Now()
		w.carry(order{Do: "load", Limit: narrow, Keys: []string{key}, Rate: 40, Cost: piece, For: 1500 * time.Millisecond})
		return w.beyond(limit, key, time.Since(began))
	})
	if _, err := w.converge([]string{"planted0"}, time.Second); err == nil {
		t.Error("regions that do not hear were found to agree")
	}
	c := w.clients["us"]
	if err := c.Do(context.Background(), c.B().Set().Key("weir1:{1}:ctday:0:0:=x").Value("left").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	if left := w.left(); !strings.Contains(left, "lives for ever") && !strings.Contains(left, "keeps track") {
		t.Errorf("a key without a time to live was not found: %q", left)
	}
}

// Regions that never notice a partition each give out the whole rate.
func TestRegionsThatDoNotNoticeAPartitionAreFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t, policy.ScopeGlobal, func(s *setup) { s.Lag = time.Hour })
	found(t, 2*w.figures.Overshoot(parse(t, narrow)), w.parted)
}
