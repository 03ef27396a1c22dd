package regions

import (
	"maps"
	"testing"
	"time"
)

// seconds has beats go by in which us alone is asked, until reached.
func (p *parts) seconds(most int, reached func() bool) {
	p.t.Helper()
	for range most {
		p.now += shareBeat
		p.all["us"].asked[shared] += 1000
		for _, name := range []string{"us", "asia", "eu"} {
			p.step(name, nil)
			if reached() {
				return
			}
		}
	}
	p.t.Fatal("never")
}

func (p *parts) holding(name string) *holding {
	p.t.Helper()
	r, err := readRecord(p.all[name].record)
	if err != nil {
		p.t.Fatal(err)
	}
	return maps.Clone(r).at(shared)
}

// used is what a region may use of the limit, by its record.
func (p *parts) used(name string) share {
	if p.all[name].record == "" {
		return 0
	}
	_, usable := p.holding(name).has(whole / 3)
	return usable
}

func (p *parts) sum() (all, usable share) {
	for _, name := range p.names {
		n, _ := p.holding(name).has(whole / 3)
		all, usable = all+n, usable+p.used(name)
	}
	return all, usable
}

// TestAShareIsUsedAfterARefill, and no sooner: until then the giver's callers are
// still paying for what they had of it.
func TestAShareIsUsedAfterARefill(t *testing.T) {
	p := begun(t)
	p.seconds(10, func() bool { return len(p.holding("us").Waiting) > 0 })
	taken, began := p.now, p.used("us")
	p.seconds(100, func() bool { return p.used("us") > began })
	if waited := p.now - taken; waited < time.Minute+settling(shareBeat) || waited > time.Minute+settling(shareBeat)+shareBeat {
		t.Errorf("what was taken was used after %s, want a refill of a minute and %s", waited, settling(shareBeat))
	}
}

// TestARecordIsNotMadeUpAtOnce where something was given: what was on its way has had
// time to come.
func TestARecordIsNotMadeUpAtOnce(t *testing.T) {
	p := begun(t)
	p.seconds(10, func() bool { return len(p.holding("us").Taken) > 0 })
	p.all["us"].record = ""
	lost := p.now
	p.seconds(100, func() bool { return p.all["us"].record != "" })
	if waited := p.now - lost; waited < time.Minute+settling(shareBeat) {
		t.Errorf("the record was made up after %s", waited)
	}
	if all, _ := p.sum(); all != whole {
		t.Errorf("shares come to %d of %d", all, whole)
	}
}

// TestAGiftThatIsForgottenIsFound: who loses its record when its first gift is on its
// way learns of it from who took that, who uses it only then.
func TestAGiftThatIsForgottenIsFound(t *testing.T) {
	p := begun(t)
	eu, us := p.all["eu"], p.all["us"]
	before := us.said // it asks for nothing: no gift takes the place of the one
	p.seconds(10, func() bool { return p.holding("eu").Given["us"] > 0 })
	gift := map[string]string{"eu": eu.said}
	eu.record = ""
	p.step("eu", nil)
	if p.used("eu") != whole/3 {
		t.Fatalf("nobody said that anything was given, and eu holds %d", p.used("eu"))
	}
	p.step("us", gift)
	if n := p.holding("us").Waiting["eu"]; n == 0 {
		t.Fatal("the gift was not taken")
	}
	sound := func(when string) {
		t.Helper()
		if _, usable := p.sum(); usable > whole {
			t.Fatalf("%s %d of %d may be used", when, usable, whole)
		}
	}
	for range 100 { // eu does not hear of it
		p.now += shareBeat
		p.step("eu", map[string]string{"us": before})
		p.step("us", nil)
		sound("untold")
	}
	p.step("eu", nil)
	if all, _ := p.sum(); all != whole {
		t.Errorf("shares come to %d of %d", all, whole)
	}
	began := p.now
	p.seconds(100, func() bool { sound("told"); return p.holding("us").Waiting["eu"] == 0 })
	if waited := p.now - began; waited < time.Minute+settling(shareBeat) {
		t.Errorf("it was used %s after the giver knew", waited)
	}
}

// TestAnotherLeadsMeanwhile: what an instance saw wait before others led is not what
// waits when it leads again, nor is a record that was lost.
func TestAnotherLeadsMeanwhile(t *testing.T) {
	p := begun(t)
	us := p.all["us"]
	p.seconds(10, func() bool { return len(p.holding("us").Waiting) > 0 })
	one, other := us.keeper, NewShareKeeper(us.exchange)
	us.keeper = other
	p.seconds(100, func() bool { return len(p.holding("us").Waiting) == 0 })
	used := p.used("us")
	us.asked[shared] = 0
	for range 100 {
		p.now += shareBeat
		p.all["asia"].asked[shared] += 1000
		for _, name := range p.names {
			p.step(name, nil)
		}
	}
	p.seconds(1000, func() bool { return len(p.holding("us").Waiting) > 0 })
	us.keeper = one
	again, before := p.now, p.used("us")
	if before >= used {
		t.Fatalf("us holds %d, and held %d", before, used)
	}
	p.seconds(100, func() bool { return p.used("us") > before })
	if waited := p.now - again; waited < time.Minute+settling(shareBeat) {
		t.Errorf("what another took was used after %s", waited)
	}
	for range 2 {
		us.record, us.keeper = "", other
		p.seconds(10, func() bool { return other.regains > 0 })
		us.keeper = one
		lost := p.now
		p.seconds(100, func() bool { return us.record != "" })
		if waited := p.now - lost; waited < time.Minute+settling(shareBeat) {
			t.Errorf("the record was made up after %s", waited)
		}
		one, other = other, one
	}
}
