package regions_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/policy"
	"github.com/weirhq/weir/redisstore"
	"github.com/weirhq/weir/regions"
)

// A region of these tests is a process of its own, which this file is when it is
// asked to be: it takes orders on standard input and answers each with a line.

const childEnv = "WEIR_TEST_REGION"

// setup is what a region's process is started with.
type setup struct {
	Region        string
	URL           string
	Peers         map[string]string // by region, its URL
	Interval, Lag time.Duration
	Scope         policy.Scope
	Beat          time.Duration // of shares
	Deaf          bool          // planted: debits of others are not heard
}

// order is what a region is to do.
type order struct {
	Do    string // load, peek, stats
	Limit string
	Keys  []string
	For   time.Duration
	Rate  int   // takes a second of each key
	Cost  int64 // of a take; 1 if 0
}

// answer is what came of it.
type answer struct {
	Admitted  int64
	Unsure    int64 // units of takes that the store did not answer: they may be debited there, or later
	Remaining map[string]int64
	Stats     regions.Stats
	Err       string
}

const space = "rule/test/tenant"

func TestMain(m *testing.M) {
	if text := os.Getenv(childEnv); text != "" {
		if err := serveRegion(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func serveRegion(text string) error {
	var s setup
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return err
	}
	store, err := redisstore.Open(s.URL, redisstore.Options{Timeout: time.Second})
	if err != nil {
		return err
	}
	if s.Deaf {
		for peer := range s.Peers {
			delete(s.Peers, peer)
		}
	}
	peers := map[string]regions.Peer{}
	for name, url := range s.Peers {
		peers[name] = regions.Peer{URL: url}
	}
	service, err := regions.Start(regions.Options{
		Region: s.Region, Peers: peers, Interval: s.Interval, Lag: s.Lag, ShareBeat: s.Beat, Store: store, URL: s.URL,
	})
	if err != nil {
		return err
	}
	front := regions.Front(store, service.Exchange)
	front.Share(map[string]policy.Sharing{space: {Scope: s.Scope, Refill: time.Second}})
	limiter, err := weir.New(weir.Options{Store: front})
	if err != nil {
		return err
	}
	in, out := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	for in.Scan() {
		var o order
		if err := json.Unmarshal(in.Bytes(), &o); err != nil {
			return err
		}
		a := carryOut(limiter, service, o)
		if err := out.Encode(a); err != nil {
			return err
		}
	}
	if err := errors.Join(service.Close(), limiter.Close()); err != nil {
		return err
	}
	return leftOver()
}

// leftOver says which goroutines outlive a region that was closed.
func leftOver() error {
	late := time.NewTimer(10 * time.Second)
	defer late.Stop()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for runtime.NumGoroutine() > 1 {
		select {
		case <-again.C:
		case <-late.C:
			all := make([]byte, 1<<16)
			return fmt.Errorf("goroutines are left over:\n%s", all[:runtime.Stack(all, true)])
		}
	}
	return nil
}

func carryOut(l *weir.Limiter, s *regions.Service, o order) (a answer) {
	limit := weir.PerSecond(1)
	if o.Limit != "" {
		var err error
		if limit, err = weir.ParseLimit(o.Limit); err != nil {
			return answer{Err: err.Error()}
		}
	}
	ask := func(key string, verb algo.Verb) *weir.Bill {
		c := limit.Charge(key)
		c.Space, c.Cost = space, max(o.Cost, 1)
		b := &weir.Bill{Verb: verb, Charges: []weir.Charge{c}}
		if err := l.Decide(context.Background(), b); err != nil {
			a.Err = err.Error()
		}
		return b
	}
	switch o.Do {
	case "load":
		tick := time.NewTicker(time.Second / time.Duration(o.Rate))
		defer tick.Stop()
		end := time.NewTimer(o.For)
		defer end.Stop()
		for {
			select {
			case <-tick.C:
				for _, key := range o.Keys {
					switch b := ask(key, algo.Take); {
					case b.Err != nil:
						a.Unsure += b.Charges[0].Cost
					case b.Allowed:
						a.Admitted += b.Charges[0].Cost
					}
				}
			case <-end.C:
				return a
			}
		}
	case "peek":
		a.Remaining = map[string]int64{}
		for _, key := range o.Keys {
			a.Remaining[key] = ask(key, algo.Peek).Each[0].Remaining
		}
	case "stats":
		a.Stats = s.Exchange.Stats()
	}
	return a
}

// region is the process of one region, as the test sees it.
type region struct {
	t    *testing.T
	name string
	mu   sync.Mutex
	in   *json.Encoder
	out  *bufio.Scanner
	end  func()
}

func startRegion(t *testing.T, s setup) *region {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	var faults strings.Builder
	cmd.Stderr = &faults
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := &region{t: t, name: s.Region, in: json.NewEncoder(in), out: bufio.NewScanner(out)}
	r.out.Buffer(nil, 1<<20)
	r.end = sync.OnceFunc(func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("region %s: %v\n%s", s.Region, err, faults.String())
		}
	})
	t.Cleanup(r.end)
	return r
}

// do gives an order and waits for the answer.
func (r *region) do(o order) (a answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.in.Encode(o); err != nil {
		r.t.Errorf("region %s: %v", r.name, err)
		return a
	}
	if !r.out.Scan() {
		r.t.Errorf("region %s ended", r.name)
		return a
	}
	if err := json.Unmarshal(r.out.Bytes(), &a); err != nil || a.Err != "" {
		r.t.Errorf("region %s: %v %s", r.name, err, a.Err)
	}
	return a
}
