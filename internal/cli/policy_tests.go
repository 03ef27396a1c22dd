package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/identity"
	"github.com/weirhq/weir/policy/policyfile"
	"github.com/weirhq/weir/sim/replay"
)

// policyTests is what came of the tests of a file.
type policyTests struct {
	Passed   int              `json:"passed"`
	Failed   int              `json:"failed"`
	Failures []policyTestFail `json:"failures"`
}

// policyTestFail is one thing that is not as asserted.
type policyTestFail struct {
	Test  string `json:"test"`
	Line  int    `json:"line"`
	Field string `json:"field"` // such as traffic[1].admitted
	Want  any    `json:"want"`
	Got   any    `json:"got"`
	note  string // for people: what happened
}

func newPolicyTest() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "test FILE",
		Short: "Run the assertions that stand beside the rules of a policy file",
		Long: `Run the tests: of a policy file. Each begins with empty balances, sends its
traffic on a clock of its own through the rules of the file, and says how many of
the requests are to be admitted. Exit 1 if one is not as asserted.`,
		Example: `  tests:
    - name: guessing passwords is slowed down
      caller: {ip: 198.51.100.7}
      traffic: [{method: POST, path: /login, count: 20, every: 1s}]
      admitted: 5
      refused_by: login`,
		Args: arguments("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := policyfile.Load(args[0])
			if err != nil {
				return misuse("", "%w", err)
			}
			if len(f.Tests) == 0 {
				return misuse("weir policy test --help shows one", "%s has no tests:", args[0])
			}
			who, err := identity.NewResolver(f.Identity())
			if err != nil {
				return misuse("", "%w", err)
			}
			result := policyTests{Failures: []policyTestFail{}}
			w := cmd.OutOrStdout()
			for i := range f.Tests {
				fails, err := runPolicyTest(cmd.Context(), f, who, &f.Tests[i])
				if err != nil {
					return err
				}
				if len(fails) == 0 {
					result.Passed++
				} else {
					result.Failed++
				}
				result.Failures = append(result.Failures, fails...)
				if !asJSON {
					printPolicyTest(w, args[0], &f.Tests[i], fails)
				}
			}
			if asJSON {
				err = printJSON(w, result)
			} else {
				_, err = fmt.Fprintf(w, "%d passed, %d failed\n", result.Passed, result.Failed)
			}
			if err == nil && result.Failed > 0 {
				err = errFailed
			}
			return err
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func runPolicyTest(ctx context.Context, f *policyfile.File, who *identity.Resolver, t *policyfile.Test) (fails []policyTestFail, err error) {
	headers := fields{}
	for name, value := range t.Caller.Headers {
		headers[name] = []string{value}
	}
	var rows []replay.Row
	for _, traffic := range t.Traffic {
		path, query, _ := strings.Cut(traffic.Path, "?")
		rows = append(rows, replay.Row{
			Count: traffic.Count, After: traffic.After, Every: traffic.Every,
			Call: identity.Call{
				Peer: t.Caller.IP, Method: traffic.Method, Path: path, Query: query, Host: traffic.Host,
				Header: headers, Cost: traffic.Cost,
			},
		})
	}
	outcomes, err := replay.Play(ctx, f.Policy, who, rows)
	if err != nil {
		return nil, fmt.Errorf("%s:%d: %w", f.Name, t.Line, err)
	}
	fail := func(field string, want, got any, note string) {
		fails = append(fails, policyTestFail{t.Name, t.Line, field, want, got, note})
	}
	var all replay.Outcome
	for i, o := range outcomes {
		if want := t.Traffic[i].Admitted; want >= 0 && want != o.Admitted {
			fail(fmt.Sprintf("traffic[%d].admitted", i), want, o.Admitted, told(o))
		}
		if all.Refused == 0 {
			all.First = o.First
		}
		all.Admitted, all.Refused = all.Admitted+o.Admitted, all.Refused+o.Refused
		for _, rule := range o.RefusedBy {
			if !slices.Contains(all.RefusedBy, rule) {
				all.RefusedBy = append(all.RefusedBy, rule)
			}
		}
	}
	if t.Admitted >= 0 && t.Admitted != all.Admitted {
		fail("admitted", t.Admitted, all.Admitted, told(all))
	}
	if t.RefusedBy != "" && !slices.Equal(all.RefusedBy, []string{t.RefusedBy}) {
		got := strings.Join(all.RefusedBy, ", ")
		if got == "" {
			got = "nobody"
		}
		fail("refused_by", t.RefusedBy, got, told(all))
	}
	return fails, nil
}

// told says what came of traffic.
func told(o replay.Outcome) string {
	if o.Refused == 0 {
		return "all were admitted"
	}
	return fmt.Sprintf("%d refused by %s, the first after %s", o.Refused, strings.Join(o.RefusedBy, ", "), span(o.First.Milliseconds()))
}

func printPolicyTest(w io.Writer, file string, t *policyfile.Test, fails []policyTestFail) {
	if len(fails) == 0 {
		fmt.Fprintf(w, "ok    %s\n", t.Name)
		return
	}
	fmt.Fprintf(w, "FAIL  %s:%d: %s\n", file, t.Line, t.Name)
	for i, traffic := range t.Traffic {
		fmt.Fprintf(w, "        traffic[%d]  %s %s, %d times", i, traffic.Method, traffic.Path, traffic.Count)
		if traffic.Every > 0 {
			fmt.Fprintf(w, ", every %s", span(traffic.Every.Milliseconds()))
		}
		if traffic.After > 0 {
			fmt.Fprintf(w, ", after %s", span(traffic.After.Milliseconds()))
		}
		fmt.Fprintln(w)
	}
	for _, f := range fails {
		fmt.Fprintf(w, "      - %s: %v\n      + %s: %v   (%s)\n", f.Field, f.Want, f.Field, f.Got, f.note)
	}
}
