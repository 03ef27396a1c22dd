package onredis

import (
	"errors"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weirhq/weir/internal/testredis"
)

// With fewer cores for the client than there are, it and the server have none in
// common; with all, both may run anywhere, as they may when all is over.
func TestClientAndServerHaveCoresOfTheirOwn(t *testing.T) {
	server := testredis.Start(t)
	pid, err := processOf(t.Context(), clientOf(t, server.Addr))
	if err != nil {
		t.Fatal(err)
	}
	c, err := coresWith(pid)
	if err != nil {
		t.Fatal(err)
	}
	all := c.all.Count()
	if all < 2 {
		t.Logf("a machine of one core: both share it")
	}
	for _, ours := range []int{1, all} {
		if err := c.share(ours); err != nil {
			t.Fatal(err)
		}
		var mine, others unix.CPUSet
		if err := errors.Join(unix.SchedGetaffinity(os.Getpid(), &mine), unix.SchedGetaffinity(pid, &others)); err != nil {
			t.Fatal(err)
		}
		want, rest := ours, all-ours
		if rest == 0 {
			rest = all
		}
		if mine.Count() != want || others.Count() != rest {
			t.Errorf("%d cores of %d: %d for the client and %d for the server", ours, all, mine.Count(), others.Count())
		}
		for cpu := 0; ours < all && cpu < runtime.NumCPU(); cpu++ {
			if mine.IsSet(cpu) && others.IsSet(cpu) {
				t.Errorf("both have core %d", cpu)
			}
		}
	}
}
