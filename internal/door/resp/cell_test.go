package resp

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
)

// cellModel is the arithmetic of redis-cell 0.5: an instant (TAT) in nanoseconds
// per key, and what is left of a fraction of a nanosecond is dropped.
type cellModel struct{ tat map[string]int64 }

func (m *cellModel) throttle(now int64, key string, burst, count, period, quantity int64) [5]int64 {
	interval := period * 1e9 / count
	limit := burst + 1
	tolerance := interval * limit
	tat := max(now, m.tat[key])
	increment := interval * quantity
	limited := now < tat+increment-tolerance
	retry, ttl := int64(-1), tat+increment-now
	if limited {
		ttl = tat - now
		if increment <= tolerance {
			retry = max(1, up(tat+increment-tolerance-now)) // never rounded to 0: the contract
		}
	} else {
		m.tat[key] = tat + increment
	}
	remaining := int64(0)
	if next := tolerance - ttl; next > -interval {
		remaining = next / interval
	}
	out := [5]int64{0, limit, remaining, retry, up(ttl)}
	if limited {
		out[0] = 1
	}
	return out
}

// up rounds nanoseconds to seconds as redis-cell does: up, from a millisecond on.
func up(ns int64) int64 {
	if ns%1e9 >= 1e6 {
		return ns/1e9 + 1
	}
	return ns / 1e9
}

// TestCell holds CL.THROTTLE to the model over random histories. Costs, pauses
// and limits are such as make it pass and refuse, to the millisecond.
func TestCell(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	var clock atomic.Int64
	conn, err := net.Dial("tcp", serve(t, &clock, Options{}))
	must(t, err)
	defer conn.Close()
	replies := bufio.NewReader(conn)
	const histories, steps = 200, 40
	refused := 0
	for h := range histories {
		model := cellModel{tat: map[string]int64{}}
		burst, count := random.Int64N(30), 1+random.Int64N(200)
		period := []int64{1, 2, 7, 60, 3600, 86400}[random.IntN(6)]
		now := int64(1_700_000_000_000) + random.Int64N(1e9) // milliseconds
		for i := range steps {
			now += random.Int64N(1 + 2*period*1000/count)
			clock.Store(now * 1000)
			quantity := random.Int64N(3)
			if random.IntN(10) == 0 {
				quantity = random.Int64N(burst + 3)
			}
			key := fmt.Sprint("h", h, "k", random.IntN(2))
			want := model.throttle(now*1e6, key, burst, count, period, quantity)
			got := send(t, conn, replies, "CL.THROTTLE", key, fmt.Sprint(burst), fmt.Sprint(count), fmt.Sprint(period), fmt.Sprint(quantity))
			if text := fmt.Sprintf("*5\r\n:%d\r\n:%d\r\n:%d\r\n:%d\r\n:%d\r\n", want[0], want[1], want[2], want[3], want[4]); got != text {
				t.Fatalf("seed %d, history %d, step %d: %d burst, %d per %d s, quantity %d at %d ms:\ngot  %q\nwant %q",
					seed, h, i, burst, count, period, quantity, now, got, text)
			}
			refused += int(want[0])
		}
	}
	if refused < histories || refused > histories*steps*9/10 {
		t.Errorf("%d of %d were refused: the histories show little", refused, histories*steps)
	}
}
