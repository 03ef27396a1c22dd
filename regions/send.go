package regions

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"
)

// Bounds of what is on its way.
const (
	streamLen = 8192                  // letters that wait in a region's stream: 64 MiB, see LetterBytes
	patience  = 5 * time.Second       // for a letter's acknowledgement; then it is due again
	calm      = 10 * time.Second      // without a fault that was told of, until it is said to have ended
	farewell  = time.Second           // to tell what is due, when the service closes
	hurry     = 20 * time.Millisecond // between attempts meanwhile
)

// tell collects and sends, every interval, until the service closes; then until
// nothing is due any more, so that what was admitted last is known elsewhere.
func (s *Service) tell(ctx context.Context) {
	defer close(s.told)
	ctx, drop := context.WithCancel(ctx)
	defer drop()
	tick := time.NewTicker(s.o.Interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.round(ctx)
			s.report("what came early cannot be debited", s.Again(ctx))
			s.faults.settle()
		case <-s.stopping:
			late := time.AfterFunc(s.farewell, drop) // what is on its way and what goes now
			defer late.Stop()
			s.tellLast(ctx)
			return
		}
	}
}

// round adds up what was taken and sends it.
func (s *Service) round(ctx context.Context) {
	s.report("what was taken cannot be added to this region's counters", s.Collect(ctx))
	for name := range s.away {
		s.sendAll(ctx, name)
	}
}

// tellLast sends until nothing is due or ctx ends, and says what is given up.
func (s *Service) tellLast(ctx context.Context) {
	again := time.NewTicker(hurry)
	defer again.Stop()
	for ctx.Err() == nil {
		s.round(ctx)
		if st := s.Stats(); st.Owed == 0 && st.Pending == 0 {
			break
		}
		select {
		case <-again.C:
		case <-ctx.Done():
		}
	}
	sent := make(chan struct{})
	go func() { s.sending.Wait(); close(sent) }()
	select {
	case <-sent:
	case <-ctx.Done(): // the client does not hear of it while it connects anew
	}
	s.giveUp()
}

// giveUp tells OnError of what nobody will be told.
func (s *Service) giveUp() {
	if s.o.OnError == nil {
		return
	}
	if n := s.Stats().Pending; n > 0 {
		s.o.OnError("what was taken last is in no counter of this region, and no region hears of it", s.givenUp(n))
	}
	for name := range s.away {
		if n := s.untold(name); n > 0 {
			s.o.OnError("region "+name+" does not hear what was taken last", s.givenUp(n))
		}
	}
}

func (s *Service) givenUp(keys int) error {
	return fmt.Errorf("%d changed keys are given up, %s after the end was asked for", keys, s.farewell)
}

// sendAll sends a peer what is due to it, as far as there is room on the way. A letter
// that arrived makes room for the next at once: how fast a peer is told follows from
// the way to it. After one that did not, the next round tries again.
func (s *Service) sendAll(ctx context.Context, name string) {
	for l := s.Letter(name); l != nil; l = s.Letter(name) {
		s.sending.Go(func() {
			err := s.send(ctx, l)
			s.Done(l, err == nil)
			s.reportAway(name, err)
			if err == nil {
				s.sendAll(ctx, name)
			}
		})
	}
}

// reportAway is report for what a peer's server was asked.
func (s *Service) reportAway(peer string, err error) {
	s.report("region "+peer+" does not take messages; they wait", err)
}

// send puts a letter into the peer's stream.
func (s *Service) send(ctx context.Context, l *Letter) error {
	client, err := s.away[l.Peer].Client()
	if err != nil {
		return err
	}
	body := l.Payload()
	s.count(len(body))
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return s.away[l.Peer].Came(postScript.Exec(ctx, client, []string{s.key("in")},
		[]string{s.most, "f", s.o.Region, "k", s.o.Store.Fingerprint(), "b", rueidis.BinaryString(body)}).Error())
}
