package check

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
)

// TestTheTextOfAnAnswerIsItsJSON: whatever an answer holds, it reads as
// encoding/json would write it.
func TestTheTextOfAnAnswerIsItsJSON(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	words := []string{"", "login", "per tenant", "ünïcode", `"quoted" \ <tag> & more`, "line\nend\x7f\u2028"}
	word := func() string { return words[rng.IntN(len(words))] }
	number := func() int64 { return []int64{-1, 0, 7, 1<<53 - 1}[rng.IntN(4)] }
	one := func() Outcome {
		o := Outcome{
			Rule: word(), Allowed: rng.IntN(2) == 0, Reason: word(), Source: word(), Shadow: rng.IntN(2) == 0, Token: word(),
			RetryAfterMS: number(), ResetAfterMS: number(), DelayMS: number(),
		}
		if rng.IntN(3) > 0 {
			limit, remaining := number(), number()
			o.Limit, o.Remaining = &limit, &remaining
		}
		return o
	}
	for range 5000 {
		a := Answer{Outcome: one(), Binding: rng.IntN(32), ID: word(), Receipt: word(), Charges: []Outcome{}}
		a.Shadow, a.Token = false, "" // of charges alone
		for range rng.IntN(4) {
			a.Charges = append(a.Charges, one())
		}
		want, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(a.append(nil)); got != string(want) {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
	}
}
