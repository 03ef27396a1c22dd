package identity

import (
	"context"
	"errors"
	"sync"
	"time"
)

// answers caches what a directory says, and sees to it that of all who want to
// know the same thing one asks.
//
//	asked                 freshFor            goodFor
//	  |---- served as is ----|-- one asks again, --|-- all wait --→
//	                           the rest are served
//
// A change is in force within a second because goodFor, counted from before the
// question, is less. After a failure what is known is served for as long as the
// directory fails, with a question every pauseFor.
//
// What was found stays until room is needed. What was not found, and that is
// what strangers send, is kept apart and for freshFor alone: in two generations,
// the older dropped whole. The budget bounds how many can be in one. Things that
// are asked about only because something known names them, such as a tenant, are
// kept with what was found either way.
//
// No goroutine is started: one of the callers asks on behalf of the rest. It
// asks under its own time limit and not under its context, since the rest should
// not fail because one of them hung up.
type answers[K comparable, V any] struct {
	lookups *Lookups
	mu      sync.RWMutex // never held while asking
	kept    map[K]answer[V]
	missed  map[K]int64 // until when
	older   map[K]int64
	turned  int64 // when missed was begun
	flights map[K]*flight[V]
}

const (
	freshFor = 500 * time.Millisecond
	goodFor  = 900 * time.Millisecond
	pauseFor = 250 * time.Millisecond
)

// answer is what the directory said. Times are nanoseconds on the clock of
// Lookups.
type answer[V any] struct {
	value   V
	outcome outcome
	fresh   int64 // until when nobody asks again
	good    int64 // until when it may be served while somebody asks
}

type outcome uint8

const (
	unresolved outcome = iota // nobody could be asked
	notFound
	found
)

// flight is a question on its way. answer is set before done is closed.
type flight[V any] struct {
	done   chan struct{}
	answer answer[V]
}

var errUnfinished = errors.New("the directory did not return")

func newAnswers[K comparable, V any](l *Lookups) *answers[K, V] {
	return &answers[K, V]{
		lookups: l,
		kept:    make(map[K]answer[V]), missed: make(map[K]int64), older: make(map[K]int64),
		flights: make(map[K]*flight[V]),
	}
}

// fresh returns an answer that needs no question.
func (a *answers[K, V]) fresh(now int64, key K) (answer[V], bool) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.freshLocked(now, key)
}

func (a *answers[K, V]) freshLocked(now int64, key K) (answer[V], bool) {
	if known, ok := a.kept[key]; ok {
		return known, now < known.fresh
	}
	if now < a.missed[key] || now < a.older[key] {
		return answer[V]{outcome: notFound}, true
	}
	return answer[V]{}, false
}

// question is how to ask. keep says to hold the answer whether found or not,
// and that no permission is needed.
type question[V any] struct {
	ask     func(context.Context) (V, bool, error)
	keep    bool
	allowed func() bool
}

// get answers from the cache, from somebody else's question, or from its own.
// The error is ctx's.
func (a *answers[K, V]) get(ctx context.Context, now int64, key K, q question[V]) (answer[V], error) {
	a.mu.Lock()
	known, fresh := a.freshLocked(now, key)
	if fresh {
		a.mu.Unlock()
		return known, nil
	}
	_, have := a.kept[key]
	if f := a.flights[key]; f != nil {
		a.mu.Unlock()
		if have && now < known.good {
			return known, nil
		}
		select {
		case <-f.done:
			return f.answer, nil
		case <-ctx.Done():
			return answer[V]{}, ctx.Err()
		}
	}
	if !have && !q.keep && !q.allowed() {
		a.mu.Unlock()
		a.lookups.refused.Add(1)
		return answer[V]{}, nil
	}
	f := &flight[V]{done: make(chan struct{})}
	a.flights[key] = f
	a.mu.Unlock()
	a.fly(ctx, now, key, q, f)
	return f.answer, nil
}

// fly asks, and settles the flight whatever happens.
func (a *answers[K, V]) fly(ctx context.Context, asked int64, key K, q question[V], f *flight[V]) {
	var value V
	var ok bool
	err := errUnfinished
	defer func() {
		a.settle(asked, key, q.keep, f, value, ok, err)
		if err != nil {
			a.lookups.fail(err) // outside the lock: it calls a hook
		}
	}()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.lookups.timeout)
	defer cancel()
	a.lookups.asked.Add(1)
	value, ok, err = q.ask(ctx)
}

func (a *answers[K, V]) settle(asked int64, key K, keep bool, f *flight[V], value V, ok bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	defer close(f.done)
	delete(a.flights, key)
	known, have := a.kept[key]
	switch {
	case err != nil:
		if !have && !keep {
			return // f.answer says unresolved
		}
		known.fresh, known.good = a.lookups.clock()+int64(pauseFor), 1<<63-1
		a.keep(key, known)
		f.answer = known
	case ok || keep:
		f.answer = answer[V]{value, notFound, asked + int64(freshFor), asked + int64(goodFor)}
		if ok {
			f.answer.outcome = found
		}
		a.keep(key, f.answer)
	default:
		f.answer = answer[V]{outcome: notFound}
		delete(a.kept, key)
		if asked-a.turned >= int64(freshFor) {
			a.older, a.missed, a.turned = a.missed, make(map[K]int64), asked
		}
		a.missed[key] = asked + int64(freshFor)
	}
}

// keep stores an answer. At the bound one of a few others gives way, the one
// that nobody has asked about for longest.
func (a *answers[K, V]) keep(key K, known answer[V]) {
	if _, have := a.kept[key]; !have && len(a.kept) >= a.lookups.maxKnown {
		var oldest K
		seen, first := 0, int64(0)
		for k, v := range a.kept {
			if seen == 0 || v.fresh < first {
				oldest, first = k, v.fresh
			}
			if seen++; seen == 8 {
				break
			}
		}
		delete(a.kept, oldest)
	}
	a.kept[key] = known
}
