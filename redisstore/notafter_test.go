package redisstore

import (
	"testing"
	"time"
	"unsafe"
)

// A queue reckons its deadlines from when it began. If this machine's clock is set after
// that, they say another time of day, and are as far away as before.
func TestAStepOfOurClockMovesNoDeadline(t *testing.T) {
	l := &line{store: &Store{}}
	l.offset.Store(-1)
	deadline := time.Now().Add(time.Minute)
	want := l.notAfter(deadline)
	for _, step := range []int64{-3600, 3600} {
		stepped := deadline
		*(*int64)(unsafe.Pointer(&stepped)) += step << 30 // the seconds of its time of day; what is monotonic stays
		if d := stepped.Sub(deadline); d != 0 || stepped.Unix()-deadline.Unix() != step {
			t.Fatalf("the test steps a time by %v and its time of day by %d s", d, stepped.Unix()-deadline.Unix())
		}
		if moved := time.Duration(l.notAfter(stepped)-want) * time.Microsecond; moved.Abs() > 30*time.Minute {
			t.Errorf("a clock set by %d s moves what the store is told by %v", step, moved)
		}
	}
}
