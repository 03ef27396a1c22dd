package rls

import (
	"context"
	"time"

	"github.com/weirhq/weir/internal/door/rls/rlsconfig"
)

// lookEvery is how often the files are looked at. A change is in force within
// twice it, being seen twice: a file that is being written is not read by half.
const lookEvery = 500 * time.Millisecond

// Watch puts changes of the configuration in force until ctx ends. Notifications
// of the kernel were rejected for the reasons that policyfile's watcher has; the
// files are few and small, so that reading them is cheaper than to be clever.
func (s *Service) Watch(ctx context.Context) {
	inForce := s.current.Load().print
	seen := inForce
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		switch now := rlsconfig.Print(s.Dir); {
		case now != seen:
			seen = now
		case now != inForce:
			inForce = now
			_ = s.Reload() // Loaded is told
		}
	}
}

// Reload reads the configuration again. One that is wrong changes nothing.
func (s *Service) Reload() error {
	err := s.load()
	if s.Loaded != nil {
		s.Loaded(err)
	}
	return err
}
