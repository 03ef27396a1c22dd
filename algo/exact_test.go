package algo

import (
	"math/big"
	"math/rand/v2"
	"testing"
)

func (w wide) big() *big.Int {
	b := new(big.Int).SetUint64(w.hi)
	return b.Add(b.Lsh(b, 64), new(big.Int).SetUint64(w.lo))
}

// odd returns numbers as they hurt: small, large, and near powers of two.
func odd(rng *rand.Rand) int64 {
	switch rng.IntN(4) {
	case 0:
		return rng.Int64N(10)
	case 1:
		return max(0, int64(1)<<rng.IntN(63)+rng.Int64N(5)-2)
	case 2:
		return forever - rng.Int64N(10)
	}
	return rng.Int64N(forever)
}

// TestWideArithmetic holds the 128-bit steps against math/big.
func TestWideArithmetic(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	limit := new(big.Int).Lsh(big.NewInt(1), 127)
	times := 300_000
	if testing.Short() {
		times = 30_000
	}
	for range times {
		a, b, n, d := odd(rng), odd(rng), odd(rng), max(1, odd(rng))
		w := multiply(a, b)
		want := new(big.Int).Mul(big.NewInt(a), big.NewInt(b))
		if w.big().Cmp(want) != 0 {
			t.Fatalf("%d*%d = %s, want %s", a, b, w.big(), want)
		}
		sum := new(big.Int).Add(want, big.NewInt(n))
		if sum.Cmp(limit) < 0 && w.add(n).big().Cmp(sum) != 0 {
			t.Fatalf("%s+%d = %s, want %s", want, n, w.add(n).big(), sum)
		}
		x := multiply(n, d)
		if sum := new(big.Int).Add(want, x.big()); sum.Cmp(limit) < 0 && w.plus(x).big().Cmp(sum) != 0 {
			t.Fatalf("%s+%s = %s", want, x.big(), w.plus(x).big())
		}
		difference := new(big.Int).Sub(want, x.big())
		if difference.Sign() < 0 {
			difference.SetInt64(0)
		}
		if w.minus(x).big().Cmp(difference) != 0 || w.less(x) != (want.Cmp(x.big()) < 0) {
			t.Fatalf("%s-%s = %s, less %v", want, x.big(), w.minus(x).big(), w.less(x))
		}
		q, r := new(big.Int).QuoRem(want, big.NewInt(d), new(big.Int))
		fits := q.IsInt64()
		if s, ok := divide(w, d); ok != fits || ok && (s.us != q.Int64() || s.phase != r.Int64()) {
			t.Fatalf("%s/%d = %+v %v, want %s rest %s", want, d, s, ok, q, r)
		}
		floor, ceil := int64(forever), int64(forever)
		if fits {
			floor = q.Int64()
			if ceil = floor; r.Sign() > 0 && floor < forever {
				ceil++
			}
		}
		if w.floor(d) != floor || fits && floor < forever && w.ceil(d) != ceil || !fits && w.ceil(d) != forever {
			t.Fatalf("%s/%d: floor %d ceil %d, want %d %d", want, d, w.floor(d), w.ceil(d), floor, ceil)
		}
	}
}

// TestOwedUnits rounds up as ceil does, where a sum would not fit 64 bits too.
func TestOwedUnits(t *testing.T) {
	for _, period := range []int64{1, MinPeriod, 333_000, MaxPeriod} {
		for _, w := range []wide{{0, 0}, {0, 1}, {0, uint64(period)}, {0, uint64(period) + 1}, {0, 1<<63 - 1}, {0, 1<<64 - 1}, {0, -uint64(period)}, {1, 0}, {1, 1}} {
			if w.hi == 0 && period == 1 && w.lo > 1<<62 {
				continue // more units than there are
			}
			if got, want := (Owed{w}).Units(period), w.ceil(period); got != want {
				t.Errorf("%s over %d: %d units, want %d", w.big(), period, got, want)
			}
		}
	}
}

func TestCeilSpan(t *testing.T) {
	for _, c := range []struct {
		s    span
		n    int64
		want int64
	}{
		{span{5, 0}, 3, 5}, {span{5, 1}, 3, 6}, {span{5, 3}, 3, 6}, {span{5, 4}, 3, 7}, {span{5, -1}, 3, 5}, {span{5, -2}, 3, 5},
		{span{-5, 1}, 3, -4}, {span{0, -2}, 3, 0}, {span{-1, 3}, 3, 0},
	} {
		if got := ceilSpan(c.s, c.n); got != c.want {
			t.Errorf("%+v in 1/%d rounds up to %d, want %d", c.s, c.n, got, c.want)
		}
	}
}
