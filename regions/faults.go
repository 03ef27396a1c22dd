package regions

import (
	"sync"
	"time"
)

// faults says what is wrong when it begins and when it has ended, once each,
// however many letters meet it. A fault has ended when things went well again and
// it was not met for a while: letters of several instances go well and wrong in
// turn where only some of them are at fault.
type faults struct {
	tell func(what string, err error) // or nil
	now  func() time.Duration
	calm time.Duration

	mu    sync.Mutex // held while telling, so that one line follows the other
	known map[string]*fault
}

type fault struct {
	met, well time.Duration // when last met, and when it last went well
}

// met notes err, or that it went well where err is nil. The words of what are a
// fault's name; peers are not many.
func (f *faults) met(what string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, one := f.now(), f.known[what]
	switch {
	case err == nil && one != nil:
		one.well = now
	case err == nil:
	case one != nil:
		one.met, one.well = now, 0
	default:
		f.known[what] = &fault{met: now}
		if f.tell != nil {
			f.tell(what, err)
		}
	}
}

// came notes a fault of which nothing shows that it has ended but that it is not met any
// more.
func (f *faults) came(what string, err error) {
	f.met(what, err)
	f.met(what, nil)
}

// settle tells of faults that have ended.
func (f *faults) settle() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for what, one := range f.known {
		if one.well > 0 && f.now()-one.met >= f.calm {
			delete(f.known, what)
			if f.tell != nil {
				f.tell(what, nil)
			}
		}
	}
}
