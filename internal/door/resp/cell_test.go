package resp

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
)

// cellModel is the arithmetic of redis-cell 0.5: an instant (TAT) per key. Its unit
// is a nanosecond for redis-cell, which drops what is left of a fraction, and one
// count-th of it for what redis-cell would say if it dropped nothing.
type cellModel struct {
	units int64 // in a nanosecond
	tat   map[string]int64
}

// throttle returns what CL.THROTTLE answers at now, in nanoseconds since any time
// that is the same for all.
func (m *cellModel) throttle(now int64, key string, burst, count, period, quantity int64) [5]int64 {
	now *= m.units
	interval := period * 1e9 * m.units / count
	limit := burst + 1
	tolerance := interval * limit
	tat := max(now, m.tat[key])
	increment := interval * quantity
	limited := now < tat+increment-tolerance
	retry, ttl := int64(-1), tat+increment-now
	if limited {
		ttl = tat - now
		if increment <= tolerance {
			retry = max(1, m.up(tat+increment-tolerance-now)) // never rounded to 0: the contract
		}
	} else {
		m.tat[key] = tat + increment
	}
	remaining := int64(0)
	if next := tolerance - ttl; next > -interval {
		remaining = next / interval
	}
	out := [5]int64{0, limit, remaining, retry, m.up(ttl)}
	if limited {
		out[0] = 1
	}
	return out
}

// up rounds to seconds as redis-cell does: up, from a millisecond on.
func (m *cellModel) up(t int64) int64 {
	if t%(1e9*m.units) >= 1e6*m.units {
		return t/(1e9*m.units) + 1
	}
	return t / (1e9 * m.units)
}

// TestCell holds CL.THROTTLE to the model over random histories. Costs, pauses
// and limits are such as make it pass and refuse, to the millisecond. Three units
// at 75 a second are 40 ms, and 39.999999 ms for redis-cell: where a wait is just
// that millisecond from which on seconds are rounded up, we say what it would say
// without the loss. Elsewhere the two models say the same.
func TestCell(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	var clock atomic.Int64
	conn, err := net.Dial("tcp", serve(t, &clock, Options{}))
	must(t, err)
	defer conn.Close()
	replies := bufio.NewReader(conn)
	const histories, steps = 200, 40
	refused, lost := 0, 0
	for h := range histories {
		burst, count := random.Int64N(30), 1+random.Int64N(200)
		period := []int64{1, 2, 7, 60, 3600, 86400}[random.IntN(6)]
		began := int64(1_700_000_000_000) + random.Int64N(1e9) // milliseconds
		now := began
		cell, exact := cellModel{1, map[string]int64{}}, cellModel{count, map[string]int64{}}
		for i := range steps {
			now += random.Int64N(1 + 2*period*1000/count)
			clock.Store(now * 1000)
			quantity := random.Int64N(3)
			if random.IntN(10) == 0 {
				quantity = random.Int64N(burst + 3)
			}
			key := fmt.Sprint("h", h, "k", random.IntN(2))
			want := cell.throttle((now-began)*1e6, key, burst, count, period, quantity)
			whole := exact.throttle((now-began)*1e6, key, burst, count, period, quantity)
			if whole != want {
				lost++
			}
			got := send(t, conn, replies, "CL.THROTTLE", key, fmt.Sprint(burst), fmt.Sprint(count), fmt.Sprint(period), fmt.Sprint(quantity))
			if text := fields(want); got != text && got != fields(whole) {
				t.Fatalf("seed %d, history %d, step %d: %d burst, %d per %d s, quantity %d at %d ms:\ngot  %q\nwant %q",
					seed, h, i, burst, count, period, quantity, now, got, text)
			}
			refused += int(want[0])
		}
	}
	if lost > histories*steps/1000 {
		t.Errorf("in %d of %d answers the loss shows", lost, histories*steps)
	}
	if refused < histories || refused > histories*steps*9/10 {
		t.Errorf("%d of %d were refused: the histories show little", refused, histories*steps)
	}
}

func fields(v [5]int64) string {
	return fmt.Sprintf("*5\r\n:%d\r\n:%d\r\n:%d\r\n:%d\r\n:%d\r\n", v[0], v[1], v[2], v[3], v[4])
}
