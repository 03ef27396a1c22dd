package testredis

import (
	"strings"
	"testing"
)

func TestStartsAnswersAndStops(t *testing.T) {
	for _, binary := range Installed() {
		t.Run(binary, func(t *testing.T) {
			s := StartBinary(t, binary, "maxmemory 2mb")
			if err := ping(s.Addr); err != nil {
				t.Fatal(err)
			}
			if err := s.Pause(); err != nil {
				t.Fatal(err)
			}
			if ping(s.Addr) == nil {
				t.Error("a paused server answers")
			}
			if err := s.Resume(); err != nil {
				t.Fatal(err)
			}
			s.Kill()
			if ping(s.Addr) == nil {
				t.Error("a killed server answers")
			}
			if err := s.Restart(); err != nil {
				t.Fatal(err)
			}
			s.Stop()
			s.Stop()
			if ping(s.Addr) == nil {
				t.Error("a stopped server answers")
			}
		})
	}
}

func TestFailsClearly(t *testing.T) {
	for _, c := range []struct {
		binary, config, want string
	}{
		{"no-such-server", "", "no-such-server is not installed"},
		{Redis, "nonsense 1", "ended at once; its output:"},
	} {
		s, err := Run(c.binary, c.config)
		if err == nil {
			s.Stop()
			t.Fatalf("%s started", c.binary)
		}
		if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want …%s…", err, c.want)
		}
	}
}
