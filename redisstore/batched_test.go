package redisstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/internal/testredis"
	"github.com/weirhq/weir/redisstore"
	"github.com/weirhq/weir/verify"
)

// A batch decides what the same bills get one by one: random bills of many
// shapes over few keys, all in one call to Redis, against memory, where the
// same bills are asked one after the other; every field of every decision.
func TestABatchDecidesWhatTheBillsGetOneByOne(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	server := testredis.Start(t)
	limits := []weir.Limit{
		weir.Per(7, 3*time.Second), weir.Per(5, time.Second).Burst(9), weir.Per(5, time.Second).Using(algo.FixedWindow),
		weir.Per(6, 2*time.Second).Using(algo.SlidingWindow), weir.Per(6, time.Second).Using(algo.SlidingLog),
		weir.Per(4, time.Second).Using(algo.LeakyBucket).Burst(3),
	}
	for history := range 60 {
		clock := new(verify.Clock)
		now := int64(1_800_000_000_000_000)
		clock.Set(now)
		store, err := redisstore.Open(server.URL(), redisstore.Options{Prefix: fmt.Sprint("batch", history), Clock: clock.Now, Timeout: patient})
		if err != nil {
			t.Fatal(err)
		}
		batched := limiterOn(t, store)
		single := limiterOn(t, weir.NewMemory(weir.MemoryOptions{Now: clock.Now}))
		for step := range 12 {
			now += r.Int64N(900_000)
			clock.Set(now)
			var a, b []*weir.Bill
			for range 1 + r.IntN(60) {
				x, y := randomBill(r, limits)
				a, b = append(a, x), append(b, y)
			}
			if err := batched.Decide(context.Background(), a...); err != nil {
				t.Fatal(err)
			}
			for i := range b {
				if err := single.Decide(context.Background(), b[i]); err != nil {
					t.Fatal(err)
				}
				compare(t, fmt.Sprintf("seed %d history %d step %d bill %d", seed, history, step, i), a[i], b[i])
			}
			if t.Failed() {
				return
			}
		}
	}
}

func limiterOn(t *testing.T, s weir.Store) *weir.Limiter {
	t.Helper()
	l, err := weir.New(weir.Options{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// randomBill returns the same bill twice: mostly one charge, sometimes up to
// three on different limits, a peek or a trial among them.
func randomBill(r *rand.Rand, limits []weir.Limit) (a, b *weir.Bill) {
	a, b = new(weir.Bill), new(weir.Bill)
	if r.IntN(8) == 0 {
		a.Verb = algo.Peek
	}
	n := 1
	if r.IntN(4) == 0 {
		n += r.IntN(3)
	}
	for i, l := range r.Perm(len(limits))[:n] {
		c := weir.Charge{Key: fmt.Sprint("k", r.IntN(3)), Limit: limits[l], Cost: 1 + r.Int64N(4)}
		if r.IntN(10) == 0 {
			c.Cost, c.Peek = 0, true
		}
		if i > 0 && r.IntN(4) == 0 {
			c.Trial = int8(r.IntN(2)*2 - 1) // beside the bill, or in place of its first charge
		}
		a.Charges = append(a.Charges, c)
	}
	b.Verb = a.Verb
	b.Charges = append(b.Charges, a.Charges...)
	return a, b
}

func compare(t *testing.T, where string, a, b *weir.Bill) {
	t.Helper()
	if a.Err != nil || b.Err != nil {
		t.Errorf("%s: %v and %v", where, a.Err, b.Err)
		return
	}
	for i := range a.Each {
		a.Each[i].Source, b.Each[i].Source = "", ""
		if a.Each[i] != b.Each[i] {
			t.Errorf("%s charge %d (%s of %s, cost %d):\n batched %+v\n one by one %+v",
				where, i, a.Charges[i].Key, a.Charges[i].Limit, a.Charges[i].Cost, a.Each[i], b.Each[i])
		}
	}
	a.Source, b.Source = "", ""
	if a.Decision != b.Decision {
		t.Errorf("%s:\n batched %+v\n one by one %+v", where, a.Decision, b.Decision)
	}
}
