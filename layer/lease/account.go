package lease

import (
	"math"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
)

// account is one key that is watched. Its shard's mutex guards it.
type account struct {
	charge weir.Charge // with a key of its own: the caller's may be reused
	quota  algo.Quota
	most   int64 // units that may be out, over all instances

	since  time.Duration // start of the beat that is counted
	takes  int           // in it
	units  int64         // asked for in it
	rate   int           // takes in the last whole beat
	demand int64         // units asked for in it

	loan  *loan         // lent from to purses, or nil
	next  *loan         // lent from when loan is used up, or nil
	over  []*loan       // to be given back
	asked bool          // the lenders have been told
	calls int           // how often the loans were recalled
	dry   time.Duration // nothing to lend until then
}

// loan is a block of units. Its account's shard's mutex guards what changes.
type loan struct {
	receipt weir.Receipt
	known   time.Duration // when the answer came: store time reckoned from it is never ahead
	until   time.Duration // from before it was asked for, so it ends early and never late
	after   algo.View     // the balance with the whole loan spent

	left    int64     // units neither spent nor in a purse
	held    int       // slices of it that are in purses
	running algo.View // the balance as units are spent

	holds atomic.Int32 // splits that have units of it: counted up while a slice has some
}

// watch begins to count a key. In a full shard one gives way of which nothing is lent:
// the one asked for least of some that the map yields first, which is at random. Most
// keys are cold, and come by the thousand; to look at all for each of them would cost
// more than all else that is done for it here.
func (s *shard) watch(p print, bal *weir.Balance, most int64, now time.Duration) {
	if len(s.accounts) >= accounts {
		var coldest print
		least, looked := math.MaxInt, 0
		for q, a := range s.accounts {
			if !a.idle() {
				continue
			}
			if heat := a.heat(now); heat < least {
				coldest, least = q, heat
			}
			if looked++; looked == looks {
				break
			}
		}
		if least == math.MaxInt {
			return
		}
		delete(s.accounts, coldest)
	}
	a := &account{charge: *bal.Charge, quota: bal.Quota, most: most, since: now, takes: 1, units: bal.Cost}
	a.charge.Key = strings.Clone(a.charge.Key)
	a.charge.Space, a.charge.Group = strings.Clone(a.charge.Space), strings.Clone(a.charge.Group)
	s.accounts[p] = a
}

// looks is how many keys are compared for which of them gives way.
const looks = 8

// idle reports whether nothing of the key is lent or about to be.
func (a *account) idle() bool {
	return !a.asked && a.loan == nil && a.next == nil && len(a.over) == 0
}

// heat is how often the key is asked for.
func (a *account) heat(now time.Duration) int {
	if now-a.since > 10*beat {
		return 0
	}
	return max(a.rate, a.takes)
}

// tally counts takes of so many units in all.
func (a *account) tally(now time.Duration, takes int, units int64) {
	if now-a.since >= beat {
		a.rate, a.demand = a.takes, a.units
		if now-a.since >= 2*beat {
			a.rate, a.demand = 0, 0
		}
		a.since, a.takes, a.units = now, 0, 0
	}
	a.takes += takes
	a.units += units
}

// wants reports whether the lenders should be told that the key wants a loan: it is
// hot, and less than half of a loan is left.
func (a *account) wants(now time.Duration, hot int) bool {
	if a.asked || now < a.dry || max(a.takes, a.rate) < hot || a.next != nil {
		return false
	}
	if o := a.loan; o != nil && o.left > o.receipt.Cost/2 && now < o.until-a.life()/2 {
		return false
	}
	a.asked = true
	return true
}

// life is how long a loan of the key may last.
func (a *account) life() time.Duration {
	return min(time.Duration(a.quota.Period)*time.Microsecond/10, longest)
}

// ready reports whether cost can be spent at now, after moving on to the next
// loan where that is needed.
func (a *account) ready(cost int64, now time.Duration) bool {
	for range 2 {
		if a.loan != nil && a.loan.left >= cost && now < a.loan.until {
			return true
		}
		if a.next == nil {
			return false
		}
		a.retire()
	}
	return false
}

// retire puts the current loan aside to be given back and moves on to the next.
func (a *account) retire() {
	if a.loan != nil {
		a.over = append(a.over, a.loan)
	}
	a.loan, a.next = a.next, nil
}

// recall puts all loans aside, one that a lender may be asking for included.
func (a *account) recall() {
	a.retire()
	a.retire()
	a.calls++
}
