package cli

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/internal/door/admin"
	"github.com/weirhq/weir/layer/fault"
)

func newDrill() *cobra.Command {
	a := &adminAsk{}
	var by, reply string
	var length, latency time.Duration
	var percent int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "drill latency|stall|unreachable|refusal --for 30s",
		Short: "Make the store fail on purpose for a while, on one instance",
		Long: `Make the store fail on purpose, on the one instance that is asked, for a stated
time: so that the answers which limits state for an outage are seen before there
is one. Real requests get them. The instance must have been started with
--allow-drills. --for 0s ends a drill.

  latency      every call to the store takes --latency longer
  stall        no call is answered
  unreachable  nobody listens
  refusal      the server answers with an error, --reply: READONLY LOADING OOM …`,
		Example: `  weir drill unreachable --for 30s
  weir drill latency --latency 20ms --percent 50 --for 2m
  weir drill refusal --reply READONLY --for 30s`,
		Args: arguments("latency|stall|unreachable|refusal"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("for") {
				return misuse("usage: "+cmd.UseLine(), "--for is missing: a drill always ends")
			}
			if f := cmd.Flags(); f.Changed("latency") && args[0] != fault.Latency || f.Changed("reply") && args[0] != fault.Refusal {
				return misuse("usage: "+cmd.UseLine(), "--latency goes with latency, --reply with refusal, and neither with %s", args[0])
			}
			if args[0] == fault.Latency && (latency <= 0 || latency > time.Minute) {
				return misuse("", "--latency %s: must be more than 0 and at most 1m", latency)
			}
			ask := map[string]any{"fault": args[0], "for": length.String(), "percent": percent, "by": by}
			switch args[0] {
			case fault.Latency:
				ask["latency"] = latency.String()
			case fault.Refusal:
				ask["reply"] = reply
			}
			var d admin.Drilled
			if err := a.post(cmd.Context(), "/v1/drill", ask, &d); err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), d)
			}
			text := fmt.Sprintf("the store fails on purpose (%s) until %s", d.Fault, d.Until)
			if length == 0 {
				text = "no drill is on"
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), text)
			return err
		},
	}
	f := cmd.Flags()
	f.DurationVar(&length, "for", 0, "how long, at most 10m; 0s ends the drill that is on")
	f.DurationVar(&latency, "latency", 500*time.Millisecond, "of latency: what every call takes longer")
	f.StringVar(&reply, "reply", "READONLY", "of refusal: the first word of the server's error")
	f.IntVar(&percent, "percent", 100, "how many of the calls, in percent")
	f.StringVar(&by, "by", os.Getenv("USER"), "who does it, for the log")
	a.flags(f)
	jsonFlag(cmd, &asJSON)
	return cmd
}
