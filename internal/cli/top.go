package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/weirhq/weir/internal/door/admin"
	"github.com/weirhq/weir/observe"
)

func newTop() *cobra.Command {
	a := &adminAsk{}
	var n int
	var every time.Duration
	var once, asJSON bool
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show the keys asked for most and refused most, as it happens",
		Long: `Show which keys were asked for most, and refused most, in the last one to two
minutes on the instance that is asked. Counts are of a sketch, so each has bounds
between which the true one lies.`,
		Example: `  weir top
  weir top --once --json -n 50`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if n < 1 || n > 100 || every < 100*time.Millisecond {
				return misuse("", "-n must lie between 1 and 100, and --every be at least 100ms")
			}
			out := cmd.OutOrStdout()
			live := !once && !asJSON && isTerminal(out)
			for {
				var top admin.Top
				if err := a.get(cmd.Context(), fmt.Sprintf("/v1/top?n=%d", n), &top); err != nil {
					return err
				}
				if err := showTop(out, &top, live, asJSON); err != nil || !live {
					return err
				}
				next := time.NewTimer(every)
				select {
				case <-cmd.Context().Done():
					next.Stop()
					return nil
				case <-next.C:
				}
			}
		},
	}
	f := cmd.Flags()
	f.IntVarP(&n, "keys", "n", 10, "how many keys of each kind")
	f.DurationVar(&every, "every", time.Second, "how often to look")
	f.BoolVar(&once, "once", false, "print once; so does output that is no terminal")
	a.flags(f)
	jsonFlag(cmd, &asJSON)
	return cmd
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// home moves to the top left and clears what is below.
const home = "\x1b[H\x1b[J"

func showTop(w io.Writer, top *admin.Top, live, asJSON bool) error {
	if asJSON {
		return printJSON(w, top)
	}
	var screen bytes.Buffer
	if live {
		screen.WriteString(home)
	}
	if err := printTop(&screen, top); err != nil {
		return err
	}
	_, err := screen.WriteTo(w)
	return err
}

func printTop(w io.Writer, top *admin.Top) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(t, format+"\n", args...) } // Flush tells
	line("the last %.0f s: %d asked, %d refused", top.Seconds, top.Asked, top.Refused)
	for _, list := range []struct {
		title  string
		counts []admin.TopCount
	}{{"asked for most", top.Hottest}, {"refused most", top.Refusals}} {
		line("\n%s\trule\tkey", list.title)
		for _, c := range list.counts {
			line("%s\t%s\t%s", bounds(c.AtLeast, c.AtMost), observe.Harmless(c.Rule), observe.Harmless(c.Key))
		}
	}
	return t.Flush()
}

func bounds(least, most int64) string {
	if least == most {
		return fmt.Sprint(least)
	}
	return fmt.Sprintf("%d to %d", least, most)
}
