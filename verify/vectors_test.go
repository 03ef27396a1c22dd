package verify

import (
	"context"
	"strings"
	"testing"

	"github.com/weirhq/weir"
)

// engines are the stores of this repository that need no server.
var engines = map[string]Open{
	"model":  Model,
	"algo":   Plain,
	"memory": func(c *Clock) (weir.Store, error) { return weir.NewMemory(weir.MemoryOptions{Now: c.Now}), nil },
}

func TestVectors(t *testing.T) {
	for name, open := range engines {
		for _, file := range Files {
			t.Run(name+"/"+file, func(t *testing.T) {
				t.Parallel()
				cases, err := embeddedFile(file)
				if err != nil {
					t.Fatal(err)
				}
				r, err := Vectors(context.Background(), cases, open)
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range r.Failures {
					t.Errorf("%s step %d: %s is %v, want %v", f.ID, f.Step, f.Field, f.Got, f.Want)
				}
				if r.Passed+r.Failed != len(cases) {
					t.Errorf("%d cases counted of %d", r.Passed+r.Failed, len(cases))
				}
			})
		}
	}
}

func TestReadCasesRefuses(t *testing.T) {
	good := `{"id":"a","epoch_us":0,"steps":[{"at_us":0,"key":"k","limit":"1/s","cost":1}]}`
	if cases, err := ReadCases(strings.NewReader("\n" + good + "\n\n")); err != nil || len(cases) != 1 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	for bad, want := range map[string]string{
		good + "\n{":                                       "line 2: ",
		`{"id":"","steps":[{}]}`:                           "line 1: a case needs an id and steps",
		`{"id":"a","steps":[]}`:                            "line 1: a case needs an id and steps",
		`{"id":"a","stesp":[{}]}`:                          "line 1: json: unknown field",
		`{"id":"a","steps":[{"at_us":1.5}]}`:               "line 1: json: cannot unmarshal",
		good + "{}":                                        "line 1: more than one object",
		good[:len(good)-1] + `,"steps":[{"alowed":true}]}`: "line 1: json: unknown field",
	} {
		if _, err := ReadCases(strings.NewReader(bad)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s…", bad, err, want)
		}
	}
}
