package verify

import (
	"context"
	"errors"
	"math"
	"os"
	"strconv"
	"testing"

	"github.com/weirhq/weir"
)

// histories is how many a test runs; the environment makes a soak of it:
//
//	WEIR_HISTORIES=1000000 go test -timeout 0 -run TestPromises ./verify
func histories(t *testing.T, usual int) int {
	s := os.Getenv("WEIR_HISTORIES")
	switch {
	case s == "" && testing.Short():
		return usual / 20
	case s == "":
		return usual
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatalf("WEIR_HISTORIES: %v", err)
	}
	return n
}

// usual is by what an engine costs: the model is slow, and is here the one judged.
var usual = map[string]int{"memory": 10_000, "algo": 4_000, "model": 2_000}

func TestPromises(t *testing.T) {
	for name, open := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := Run(context.Background(), open, Options{Histories: histories(t, usual[name])})
			t.Logf("seed %d: %d passed", r.Seed, r.Passed)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range r.Failures {
				t.Errorf("%s of seed %d, step %d: %s is %v, want %v", f.ID, r.Seed, f.Step, f.Field, f.Got, f.Want)
			}
			if r.Failed > len(r.Failures) {
				t.Errorf("and %d more", r.Failed-len(r.Failures))
			}
		})
	}
}

// Numbers out of range are said: they ran no history and passed, or were a panic.
func TestRunRefusesNumbersOutOfRange(t *testing.T) {
	for field, options := range map[string][]Options{
		"histories": {{Histories: -1}},
		"first":     {{First: -1, Histories: 1}, {First: math.MaxInt, Histories: 1}, {First: math.MaxInt - 5}},
	} {
		for _, o := range options {
			_, err := Run(context.Background(), engines["memory"], o)
			var input *weir.InputError
			if !errors.As(err, &input) || input.Field != field {
				t.Errorf("%+v: %v, want an error of %s", o, err, field)
			}
		}
	}
}
