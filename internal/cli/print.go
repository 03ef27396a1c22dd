package cli

import (
	"encoding/json"
	"io"
	"time"

	"github.com/spf13/cobra"
)

func jsonFlag(cmd *cobra.Command, to *bool) {
	cmd.Flags().BoolVar(to, "json", false, "print JSON")
}

// printJSON prints v on one line.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// span spells a time in milliseconds for people.
func span(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	if d >= 10*time.Second {
		d = (d + time.Second - 1).Truncate(time.Second)
	}
	return d.String()
}
