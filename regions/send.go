package regions

import (
	"context"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// Bounds of what is on its way.
const (
	inFlight  = 8                // letters to one peer
	streamLen = 8192             // letters that wait in a region's stream: 64 MiB, see LetterBytes
	patience  = 5 * time.Second  // for a letter's acknowledgement; then it is due again
	calm      = 10 * time.Second // without a fault that was told of, until it is said to have ended
	farewell  = time.Second
)

// tell collects and sends, every interval, until the service closes; then once
// more, so that what was admitted last is known elsewhere.
func (s *Service) tell(ctx context.Context) {
	defer close(s.told)
	ctx, drop := context.WithCancel(ctx)
	defer drop()
	tick := time.NewTicker(s.o.Interval)
	defer tick.Stop()
	var sending sync.WaitGroup
	room := map[string]chan struct{}{}
	for name := range s.away {
		room[name] = make(chan struct{}, inFlight)
	}
	round := func() {
		s.report("what was taken cannot be added to this region's counters", s.Collect(ctx))
		for name := range s.away {
			s.sendAll(ctx, name, room[name], &sending)
		}
	}
	for {
		select {
		case <-tick.C:
			round()
			s.report("what came early cannot be debited", s.Again(ctx))
			s.faults.settle()
		case <-s.stopping:
			late := time.AfterFunc(farewell, drop) // what is on its way and what goes now
			defer late.Stop()
			round()
			sent := make(chan struct{})
			go func() { sending.Wait(); close(sent) }()
			select {
			case <-sent:
			case <-ctx.Done(): // the client does not hear of it while it connects anew
			}
			return
		}
	}
}

// sendAll sends a peer what is due to it, as far as there is room on the way. One
// that takes nothing gets a letter a time, to find out when it does again.
func (s *Service) sendAll(ctx context.Context, name string, room chan struct{}, sending *sync.WaitGroup) {
	for more := true; more; more = !s.failing(name) {
		select {
		case room <- struct{}{}:
		default:
			return
		}
		l := s.Letter(name)
		if l == nil {
			<-room
			return
		}
		sending.Go(func() {
			defer func() { <-room }()
			err := s.send(ctx, l)
			s.Done(l, err == nil)
			s.reportAway(name, err)
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
	body := encode(nil, l.Taken)
	s.count(len(body))
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return postScript.Exec(ctx, client, []string{s.key("in")},
		[]string{s.most, "f", s.o.Region, "k", s.o.Store.Fingerprint(), "b", rueidis.BinaryString(body)}).Error()
}
