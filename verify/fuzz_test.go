package verify

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
)

// tape turns fuzz input into choices. Beyond its end everything is 0.
type tape []byte

func (t *tape) byte() byte {
	if len(*t) == 0 {
		return 0
	}
	b := (*t)[0]
	*t = (*t)[1:]
	return b
}

// upTo reads a number from 0 to most.
func (t *tape) upTo(most int64) int64 {
	var b [4]byte
	for i := range b {
		b[i] = t.byte()
	}
	n := int64(binary.LittleEndian.Uint32(b[:])) << (4 * (t.byte() & 7))
	return n % (most + 1)
}

func (t *tape) put(n int64) *tape {
	var b [5]byte
	binary.LittleEndian.PutUint32(b[:], uint32(n))
	*t = append(*t, b[:]...)
	return t
}

// limits reads two limits on one balance.
func (t *tape) limits() (two [2]weir.Limit) {
	kind := algo.Kinds[int(t.byte())%len(algo.Kinds)]
	period := time.Duration(1+t.upTo(algo.MaxPeriod/1000-1)) * time.Millisecond
	for i := range two {
		most := int64(algo.MaxUnits)
		if kind == algo.SlidingLog {
			most = algo.MaxLog
		}
		l := weir.Per(t.upTo(most), period).Using(kind)
		if burst := t.upTo(algo.MaxUnits); kind.Bucket() && burst > 0 {
			l = l.Burst(burst)
		}
		two[i] = l
	}
	return two
}

// FuzzSteps holds the steps of package algo, bare and in memory, to the model
// over arbitrary limits, costs, waits, changes of limit and steps of the clock.
func FuzzSteps(f *testing.F) {
	for _, s := range shipped() {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		in := tape(input)
		limits := in.limits()
		if limits[0].Check() != nil || limits[1].Check() != nil {
			return
		}
		clock := new(Clock)
		clock.Set(1_767_225_600_000_000 + in.upTo(1<<40))
		model := &modelStore{clock: clock, accounts: map[owner]*account{}, blocks: map[owner]int64{}}
		reference := limiterOf(t, model)
		others := map[string]*weir.Limiter{}
		for name, open := range engines {
			store, err := open(clock)
			if err != nil {
				t.Fatal(err)
			}
			others[name] = limiterOf(t, store)
		}
		for range min(len(in)/12+1, 40) {
			how := in.byte()
			gap := in.upTo(3 * limits[0].Period().Microseconds())
			switch now := clock.Now(); {
			case how&1 > 0 && now-gap > earliest && !model.revives(now, now-gap):
				clock.Set(now - gap)
			case how&1 == 0 && now+gap < latest:
				clock.Set(now + gap)
			}
			l := limits[how>>1&1]
			bill := weir.Bill{Charges: []weir.Charge{l.Charge("k")}}
			c := &bill.Charges[0]
			switch how >> 2 & 7 {
			case 0:
				c.Cost, c.Peek = 0, true
			case 1:
				c.Cost = max(1, l.Most())
			case 2:
				c.Cost = l.Most() + 1
			case 3:
				c.Cost = 1 + in.upTo(max(1, l.Most()))
			case 4:
				bill.MaxWait = time.Duration(in.upTo(algo.MaxWait)) * time.Microsecond
			}
			if how>>5&1 > 0 {
				bill.Verb = algo.Peek
			}
			want := decideCopy(t, reference, bill)
			for name, other := range others {
				if got := decideCopy(t, other, bill); got != want {
					t.Fatalf("%s, cost %d, wait %s at %d under %s:\n got %+v\nwant %+v", name, c.Cost, bill.MaxWait, clock.Now(), l, got, want)
				}
			}
		}
	})
}

func limiterOf(t *testing.T, s weir.Store) *weir.Limiter {
	t.Helper()
	l, err := weir.New(weir.Options{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func decideCopy(t *testing.T, l *weir.Limiter, b weir.Bill) weir.Decision {
	t.Helper()
	b.Charges = append([]weir.Charge(nil), b.Charges...)
	if err := l.Decide(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	b.Source = ""
	return b.Decision
}

// earliest is the year 2001: no store keeps time before the epoch.
const earliest = 1_000_000_000_000_000

// shipped is faults that other limiters shipped, as tapes: limits, then hits.
func shipped() []tape {
	var all []tape
	const token, fixed, log, slide, leaky = 0, 1, 2, 3, 4
	for _, c := range []struct {
		kind            byte
		periodMS        int64
		n, burst, other int64
		gaps            []int64 // µs before each hit
		how             byte
	}{
		{fixed, 5_000, 5, 0, 5, []int64{0, 0, 0, 0, 0, 0}, 5 << 2},
		{log, 3_000, 3, 0, 3, []int64{0, 0, 0, 3_000_000, 1_000}, 5 << 2},
		{token, 30_000, 17, 17, 17, []int64{500_000, 500_000, 500_000, 500_000}, 5 << 2},
		{token, 1_000, 3, 3, 3, []int64{100_000, 100_000, 100_000, 100_000}, 5 << 2},
		{token, 86_400_000, 1, 1, 1, []int64{0, 1}, 2 << 2},
		{token, 3_600_000, 1, 1, 1, []int64{0, 1_620_342_287, 4_000_000_000}, 5 << 2},
		{token, 1_000, 2_000, 20, 20, []int64{0, 499, 1}, 1 << 2},
		{slide, 250, 5, 0, 5, []int64{0, 249_999, 1, 125_000}, 1 << 2},
		{slide, 3_600_000, 10, 0, 10, []int64{0, 3_540_000_000, 120_000_000}, 5 << 2},
		{token, 20_000, 10, 15, 1_000, []int64{0, 0, 0, 1}, 5<<2 | 2},
		{token, 1_000, 1, 3, 3, []int64{0, 0, 0, 11_000_000}, 5<<2 | 1},
		{fixed, 1_000, 5, 0, 5, []int64{0, 0, 0, 0, 0, 3_000_000}, 1<<2 | 1},
		{leaky, 1_000, 1, 5, 5, []int64{0, 0, 0, 6_000_000}, 5 << 2},
	} {
		t := tape{c.kind}
		t.put(c.periodMS - 1).put(c.n).put(c.burst).put(c.other).put(c.burst).put(0)
		for _, gap := range c.gaps {
			t = append(t, c.how)
			t.put(gap)
		}
		all = append(all, t)
	}
	return all
}

// FuzzReadCases: what is read as vectors can be run or is refused, and nothing
// crashes.
func FuzzReadCases(f *testing.F) {
	for _, s := range []string{
		`{"id":"a","epoch_us":0,"steps":[{"at_us":0,"key":"k","limit":"1/s","cost":1,"allowed":true,"remaining":0}]}`,
		`{"id":"a","epoch_us":1767225600000000,"steps":[{"at_us":0,"charges":[{"key":"k","limit":"5/min"},{"key":"k","limit":"5/min","cost":0}],"binding":0}]}`,
		`{"id":"a","epoch_us":-9223372036854775808,"steps":[{"at_us":-1,"key":"k","limit":"1/366d algorithm=sliding_window","cost":-1}]}`,
		"{}\n{}", `{"id":1}`, "\n\n", `{"id":"a","steps":[{"limit":"0/s","key":"k","cost":9007199254740991}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		cases, err := ReadCases(bytes.NewReader(input))
		if err != nil {
			if cases != nil {
				t.Fatal("cases beside an error")
			}
			return
		}
		r, err := Vectors(t.Context(), cases, engines["memory"])
		if err == nil && r.Passed+r.Failed != len(cases) {
			t.Fatalf("%d cases, %+v", len(cases), r)
		}
		if _, err := json.Marshal(r); err != nil {
			t.Fatal(err)
		}
	})
}
