package onredis

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// cores are those of the machine, for this process and a server on it.
type cores struct {
	all    unix.CPUSet
	server int // its process
}

func coresWith(server int) (*cores, error) {
	c := &cores{server: server}
	if err := unix.SchedGetaffinity(0, &c.all); err != nil {
		return nil, fmt.Errorf("cores: %w", err)
	}
	return c, nil
}

// share keeps this process to so many cores of the machine, and the server to the
// others; if there are no others, both may have all. Left alone, a kernel that wakes
// one over the loopback from the other likes to move it there: they take turns by the
// millisecond then, and what is measured is the kernel. In production the server has a
// machine of its own.
func (c *cores) share(ours int) error {
	mine, others := c.all, c.all
	if ours < c.all.Count() {
		for cpu, seen := 0, 0; seen < c.all.Count(); cpu++ {
			switch {
			case !c.all.IsSet(cpu):
				continue
			case seen < ours:
				others.Clear(cpu)
			default:
				mine.Clear(cpu)
			}
			seen++
		}
	}
	return errors.Join(keep(os.Getpid(), &mine), keep(c.server, &others))
}

// keep keeps all threads of a process to some cores. Twice, for those that were made
// meanwhile by one that was not kept yet.
func keep(pid int, to *unix.CPUSet) error {
	for range 2 {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
		if err != nil || len(threads) == 0 {
			return fmt.Errorf("cores: process %d is not on this machine", pid)
		}
		for _, t := range threads {
			id, err := strconv.Atoi(filepath.Base(t))
			if err != nil {
				return fmt.Errorf("cores: %w", err)
			}
			if err := unix.SchedSetaffinity(id, to); err != nil && !errors.Is(err, unix.ESRCH) { // it has ended
				return fmt.Errorf("cores: %w", err)
			}
		}
	}
	return nil
}
