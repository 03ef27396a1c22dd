package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/weirhq/weir/policy/policyfile"
)

// Two rules whose numbers say which generation of the file they are of, so that
// a decision made by parts of two shows. The window is the longest there is: no
// boundary falls into a test.
const generationOf = `
limits:
  - {name: one, key: [ip], limit: %d/366d algorithm=fixed_window}
  - {name: two, key: [all], limit: %d/366d algorithm=fixed_window}
`

const firstOne, firstTwo = 1_000_000, 2_000_000

func generation(g int) string { return fmt.Sprintf(generationOf, firstOne+g, firstTwo+g) }

// broken returns a file of a generation that must never be in force.
func broken(g int) string {
	text := generation(g)
	switch g / 4 % 5 {
	case 0:
		return text[:len(text)-20]
	case 1:
		return text + "  - {name: one, key: [ip], limit: 1/s}\n"
	case 2:
		return strings.Replace(text, "366d", "366 days", 1)
	case 3:
		return text + "limts: []\n"
	}
	return ""
}

// caller asks on behalf of one address, which nobody else does, and so knows
// exactly what its balance must be.
type caller struct {
	ip    string
	asked int64
}

// ask returns the generation that decided.
func (c *caller) ask(address string) (int, error) {
	w, err := http.Post("http://"+address+"/v1/check", "application/json", strings.NewReader(`{"path":"/","ip":"`+c.ip+`"}`))
	if err != nil {
		return 0, err
	}
	text, err := io.ReadAll(w.Body)
	if err := errors.Join(err, w.Body.Close()); err != nil {
		return 0, err
	}
	var answer struct {
		Charges []struct{ Limit, Remaining int64 }
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return 0, err
	}
	if len(answer.Charges) != 2 {
		return 0, fmt.Errorf("not decided by two rules: %s", text)
	}
	c.asked++
	one, two := answer.Charges[0], answer.Charges[1]
	switch g := int(one.Limit - firstOne); {
	case int64(g) != two.Limit-firstTwo:
		return g, fmt.Errorf("one decision by two policies: %s", text)
	case one.Limit-one.Remaining != c.asked:
		return g, fmt.Errorf("%d used after %d requests: %s", one.Limit-one.Remaining, c.asked, text)
	case two.Limit-two.Remaining < c.asked:
		return g, fmt.Errorf("the balance of all was reset: %s", text)
	default:
		return g, nil
	}
}

// TestSwaps swaps the policy file under load, one time in four for a broken one.
// Every decision is by one generation of the file, balances go on to the unit,
// and no broken file is ever in force. WEIR_SWAPS says how often.
func TestSwaps(t *testing.T) {
	swaps := 400
	if text := os.Getenv("WEIR_SWAPS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		swaps = n
	}
	file := filepath.Join(t.TempDir(), "weir.yaml")
	swap := func(text string) {
		t.Helper()
		if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	swap(generation(1))
	policy, err := policyfile.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	var put, refused atomic.Int64
	d := begin(t, Config{
		File: policy, Watch: true, Doors: []Door{HTTP(Listen{Address: "127.0.0.1:0"})},
		Reloaded: func(err error) {
			if err != nil {
				refused.Add(1)
			} else {
				put.Add(1)
			}
		},
	})
	isBroken := func(g int) bool { return g%4 == 0 }
	var seen sync.Map // generations
	done := make(chan struct{})
	var load sync.WaitGroup
	callers := make([]caller, 4)
	for i := range callers {
		c := &callers[i]
		c.ip = fmt.Sprintf("192.0.2.%d", i)
		load.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				g, err := c.ask(d.address)
				if err != nil || isBroken(g) {
					t.Errorf("generation %d: %v", g, err)
					return
				}
				seen.Store(g, nil)
			}
		})
	}
	for g := 2; g < swaps+2; g++ {
		if isBroken(g) {
			swap(broken(g))
		} else {
			swap(generation(g))
		}
		d.reload <- syscall.SIGHUP // beside the watcher, which looks four times a second
	}
	close(done)
	load.Wait()

	// The watcher by itself.
	last := 4*swaps + 1
	c := &callers[0]
	swap(generation(last))
	becomes := func(want int) {
		t.Helper()
		until(t, func() string {
			g, err := c.ask(d.address)
			if err != nil {
				t.Fatal(err)
			}
			if g != want {
				return fmt.Sprintf("generation %d is in force", g)
			}
			return ""
		})
	}
	becomes(last)
	before := refused.Load()
	swap(broken(last + 3))
	until(t, func() string {
		if refused.Load() == before {
			return "the broken file was not looked at"
		}
		return ""
	})
	becomes(last)
	generations, requests := 0, int64(0)
	seen.Range(func(any, any) bool { generations++; return true })
	for i := range callers {
		requests += callers[i].asked
	}
	t.Logf("%d swaps, %d put in force, %d refused; %d decisions by %d generations", swaps, put.Load(), refused.Load(), requests, generations)
	// How many swaps are met depends on the scheduler: the file may have moved on
	// before it is read. That several of each kind were is what counts.
	if generations < 3 || refused.Load() < 3 || put.Load() < int64(swaps)/4 {
		t.Error("too little happened for this to show anything")
	}
}
