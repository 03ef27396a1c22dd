package weir

import "github.com/weirhq/weir/algo"

// A sliding log does not fit a slot. Its slot says when it is idle, and the
// entries stand in the shard's logs, whose bytes count towards the bound. A log
// of the 5,000 entries that a limit may hold takes up to 200 KB, dead ones
// included: see leastShard.

const (
	entryBytes = 16
	logBytes   = 120 // the Log itself and its place in the map
)

var noLog algo.Log

// log returns the log that w stands for, never nil.
func (s *shard) log(print uint64, w *words) *algo.Log {
	if w[2]&logFlag == 0 {
		return &noLog // read only: an empty log is never changed
	}
	return s.logs[print]
}

func (s *shard) debitLog(at int, print uint64, now int64, bal *Balance) int {
	var log *algo.Log
	if at >= 0 && s.slots[at].w[2]&logFlag != 0 {
		log = s.logs[print]
	} else {
		if s.logs == nil {
			s.logs = make(map[uint64]*algo.Log)
		}
		log = new(algo.Log)
		s.logs[print] = log
		s.logBytes += logBytes
	}
	before := log.Cap()
	bal.Quota.ChargeLog(log, &bal.View, bal.Cost)
	s.logBytes += int64(log.Cap()-before) * entryBytes
	at = s.place(at, print, now)
	s.slots[at].w = logWords(&bal.Quota, log)
	bal.Debited = true
	s.shed(now)
	return s.still(at, print)
}

func logWords(q *algo.Quota, log *algo.Log) words {
	return words{uint64(log.Newest()+q.Period) << idleShift, 0, logFlag}
}

func (s *shard) dropLog(print uint64) {
	log := s.logs[print]
	s.logBytes -= logBytes + int64(log.Cap())*entryBytes
	delete(s.logs, print)
}

// shed brings the shard back within its bytes after a log has grown. What is idle
// goes first, then what the table has beyond half of the room, then logs: of a few
// that the map yields first, which is at random, the one nearest to idle. The logs of
// the bill at work stay; ledgers go for them.
func (s *shard) shed(now int64) {
	if s.bytes() <= s.room {
		return
	}
	s.compact(now)
	if table := int64(len(s.slots)) * slotBytes; s.bytes() > s.room && 2*table > s.room {
		s.swept = now
		s.move(now, len(s.slots)/2, s.expire(now))
		s.open()
	}
	for s.bytes() > s.room && len(s.logs) > 1 {
		var victim uint64
		var nearest int64 = 1<<63 - 1
		looked := 0
		for p := range s.logs {
			if e := &s.slots[s.find(p)]; e.id.Load()&kept == 0 && e.w.idleAt() < nearest {
				victim, nearest = p, e.w.idleAt()
			}
			if looked++; looked == 8 {
				break
			}
		}
		if victim == 0 {
			return
		}
		if nearest >= now {
			s.evicted.Add(1)
			s.voidAll(now)
		}
		e := &s.slots[s.find(victim)]
		s.abandon(e)
		e.w = words{}
	}
	if s.bytes() > s.room {
		s.voidAll(now)
	}
}
