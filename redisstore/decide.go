package redisstore

import (
	"context"

	"github.com/weirhq/weir"
)

// decide sends bills of one line as one request and settles them. Those whose
// calendar periods were sent for another time than the server's are sent once
// more: its clock is known then.
func (s *Store) decide(ctx context.Context, group uint16, bills []*weir.Bill) {
	if again := s.send(ctx, group, bills, true); len(again) > 0 {
		s.send(ctx, group, again, false)
	}
}

// send is decide without its second try. With retry, it returns the bills that
// have to be asked again, and nothing is written into them.
func (s *Store) send(ctx context.Context, group uint16, bills []*weir.Bill, retry bool) (again []*weir.Bill) {
	l := s.line(group)
	r := s.requests.Get().(*request)
	var apart []*weir.Bill
	weight := 0
	for _, b := range bills {
		weight += r.add(b.Verb, b, nil, &s.keys, l.expected)
	}
	if se := l.ask(ctx, r, weight); se != nil {
		s.fail(se, bills...)
		if !se.Unknown { // else a flight may still write into it
			s.release(r)
		}
		return nil
	}
	for i, b := range bills {
		switch status := r.word(i, 0); {
		case status == wrongPeriods && retry:
			again = append(again, b)
		case status == moving:
			apart = append(apart, b)
		case status != "":
			b.Err = replyError(status)
		default:
			r.fill(i, 0, b, nil)
			b.Settle("redis")
		}
	}
	s.release(r)
	for _, b := range apart {
		s.keyByKey(ctx, b)
	}
	return again
}

// wrongPeriods is the script's word for calendar periods that do not hold its
// clock. Nothing of the bill was charged.
const wrongPeriods = "AGAIN"

func (s *Store) release(r *request) {
	r.reset()
	s.requests.Put(r)
}

// fail gives bills the error of their request.
func (s *Store) fail(se *weir.StoreError, bills ...*weir.Bill) {
	if se.Unknown {
		s.unknown.Add(int64(len(bills)))
	}
	for _, b := range bills {
		b.Err = se
	}
}
