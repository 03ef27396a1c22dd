package testredis

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
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

// Servers by a clock of ours read it, and a step is in force at once.
func TestAClockSteps(t *testing.T) {
	c := NewClock(t)
	s := c.Start(t)
	for _, step := range []time.Duration{time.Hour, -time.Hour, 300 * time.Millisecond, 0} {
		c.Set(t, step)
		before := time.Now().Unix()
		reply, err := s.Do("TIME")
		if err != nil {
			t.Fatal(err)
		}
		at, err := strconv.ParseInt(fmt.Sprint(reply.([]any)[0]), 10, 64)
		if off := time.Duration(at-before) * time.Second; err != nil || off < step-2*time.Second || off > step+time.Minute {
			t.Errorf("a clock set by %v is off by %v (%v)", step, off, err)
		}
	}
}

// The proxy passes on, refuses, loses answers and ends one way, as told.
func TestAProxyIsTheNetwork(t *testing.T) {
	s := Start(t)
	p := StartProxy(t, s.Addr)
	c, err := Dial(p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if reply, err := c.Do("INCR", "n"); err != nil || reply != int64(1) {
		t.Fatalf("through the proxy: %v %v", reply, err)
	}
	p.Delay(150 * time.Millisecond)
	began := time.Now()
	if _, err := c.Do("INCR", "n"); err != nil || time.Since(began) < 300*time.Millisecond {
		t.Errorf("an answer after %v (%v), want two delays of 150 ms", time.Since(began), err)
	}
	p.Delay(0)
	p.Deaf(true)
	if reply, err := c.DoWithin(100*time.Millisecond, "INCR", "n"); err == nil {
		t.Errorf("an answer of %v that should be lost", reply)
	}
	p.Deaf(false)
	p.HalfClose()
	if _, err := c.DoWithin(time.Second, "INCR", "n"); err == nil {
		t.Error("an answer over a way that has ended")
	}
	for deadline := time.After(patience); s.Must(t, "GET", "n") != "4"; {
		select {
		case <-deadline:
			t.Fatal("the server did not get what was sent while its answers were lost")
		case <-time.After(5 * time.Millisecond):
		}
	}
	p.Refuse(true)
	if c, err := Dial(p.Addr); err == nil {
		if _, err := c.DoWithin(time.Second, "PING"); err == nil {
			t.Error("an answer through a proxy that refuses")
		}
		_ = c.Close()
	}
}
