package cli

import (
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/weirhq/weir/internal/cli/demo"
)

func newDemo() *cobra.Command {
	o := demo.Options{}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See it limit a small API, in one terminal",
		Long: `Run an upstream, a limiting proxy in front of it, the API, a sample policy and
three callers, and show what each caller sends, gets and why. Needs no Redis and
takes free ports where the usual are taken.`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.For < 0 {
				return misuse("", "--for must not be negative")
			}
			o.Out = cmd.OutOrStdout()
			if f, ok := o.Out.(*os.File); ok {
				o.Live = !o.JSON && term.IsTerminal(int(f.Fd()))
				if width, _, err := term.GetSize(int(f.Fd())); err == nil {
					o.Width = width
				}
			}
			return described(demo.Run(cmd.Context(), o))
		},
	}
	cmd.Flags().StringVarP(&o.Policy, "config", "c", "", "policy file to use; the sample is written there if there is none")
	cmd.Flags().DurationVar(&o.For, "for", 0, "end after this time; 0 runs until Ctrl-C")
	jsonFlag(cmd, &o.JSON)
	return cmd
}
