package mainjob

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/testredis"
)

// report is what `weir verify --json` prints.
type report struct {
	Passed   int `json:"passed"`
	Failed   int `json:"failed"`
	Failures []struct {
		ID    string `json:"id"`
		Step  int    `json:"step"`
		Field string `json:"field"`
		Want  any    `json:"want"`
		Got   any    `json:"got"`
	} `json:"failures"`
}

// TestVerify runs every vector through the binary, on memory and on Redis.
func TestVerify(t *testing.T) {
	files, err := filepath.Glob("../../verify/vectors/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("no vectors: %v", err)
	}
	for name, store := range stores(t) {
		for _, file := range files {
			t.Run(name+"/"+filepath.Base(file), func(t *testing.T) {
				vectors, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				cases := len(bytes.Split(bytes.TrimSpace(vectors), []byte("\n")))
				r, exit := verify(t, store, file)
				if exit != 0 || r.Failed != 0 || r.Passed != cases || len(r.Failures) != 0 {
					t.Errorf("exit %d, %d of %d cases passed, failures %v", exit, r.Passed, cases, r.Failures)
				}
			})
		}
	}
}

// TestVerifyFindsAnAlteredValue alters one number of one step and expects to be
// told of exactly that.
func TestVerifyFindsAnAlteredValue(t *testing.T) {
	vectors, err := os.ReadFile("../../verify/vectors/single.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(vectors), "\n")
	var c struct {
		ID    string `json:"id"`
		Steps []struct {
			Remaining *int64 `json:"remaining"`
		} `json:"steps"`
	}
	if err := json.Unmarshal([]byte(line), &c); err != nil {
		t.Fatal(err)
	}
	remaining := regexp.MustCompile(`"remaining":\s*\d+`)
	at := remaining.FindAllStringIndex(line, -1)
	if len(at) == 0 {
		t.Fatal("the first vector checks no remaining")
	}
	last := at[len(at)-1]
	step := len(c.Steps) - 1
	for c.Steps[step].Remaining == nil {
		step--
	}
	right := *c.Steps[step].Remaining
	altered := filepath.Join(t.TempDir(), "altered.jsonl")
	text := line[:last[0]] + fmt.Sprintf(`"remaining":%d`, right+1) + line[last[1]:]
	if err := os.WriteFile(altered, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			r, exit := verify(t, store, altered)
			if exit != 1 || r.Passed != 0 || r.Failed != 1 || len(r.Failures) != 1 {
				t.Fatalf("exit %d, report %+v", exit, r)
			}
			f := r.Failures[0]
			if f.ID != c.ID || f.Step != step || f.Field != "remaining" || f.Want != float64(right+1) || f.Got != float64(right) {
				t.Errorf("said %+v, want id %s, step %d, remaining %d and not %d", f, c.ID, step, right+1, right)
			}
		})
	}
}

func stores(t *testing.T) map[string]string {
	return map[string]string{"memory": "memory", "redis": testredis.Start(t).URL()}
}

func verify(t *testing.T, store, file string) (r report, exit int) {
	t.Helper()
	cmd := exec.Command(weir, "verify", "--json", "--store", store, "--vectors", file)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		exit = ended.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("exit %d, not a report: %v\n%s%s", exit, err, out, stderr.String())
	}
	return r, exit
}
