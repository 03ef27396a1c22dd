package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/weirhq/weir/identity"
	"github.com/weirhq/weir/policy/policyfile"
	"github.com/weirhq/weir/sim/accesslog"
	"github.com/weirhq/weir/sim/replay"
)

// logFlags are the flags of commands that read access logs.
func logFlags(cmd *cobra.Command, o *accesslog.Options) {
	f := cmd.Flags()
	f.StringVar(&o.Format, "format", "", "the logs' format, instead of detecting it line by line: "+strings.Join(accesslog.FormatNames(), " "))
	f.BoolVar(&o.Spread, "spread", false, "spread requests whose stamp is a whole second evenly over that second")
}

// readLogs has the logs read in order of time. It draws a progress bar on a
// terminal: read calls its argument now and then.
func readLogs(cmd *cobra.Command, names []string, o accesslog.Options, read func(context.Context, *accesslog.Files, func()) error) (accesslog.Summary, error) {
	if len(names) == 0 {
		return accesslog.Summary{}, misuse("usage: "+cmd.UseLine(), "LOG is missing; - is standard input")
	}
	o.Stdin = cmd.InOrStdin()
	files, err := accesslog.Open(names, o)
	if err != nil {
		return accesslog.Summary{}, misuse("", "%w", err)
	}
	defer files.Close()
	bar := newBar(cmd.ErrOrStderr(), files)
	err = read(cmd.Context(), files, bar.show)
	bar.end()
	return files.Summary(), err
}

// bar shows how far the reading has come, if there is somebody to see it and it
// takes long enough to ask.
type bar struct {
	files *accesslog.Files
	line  *progressbar.ProgressBar
	calls int
}

const barFrom = 32 << 20 // bytes; less is read at once

func newBar(w io.Writer, files *accesslog.Files) *bar {
	_, size := files.Progress()
	f, ok := w.(*os.File)
	if !ok || size < barFrom || !term.IsTerminal(int(f.Fd())) {
		return &bar{}
	}
	return &bar{files: files, line: progressbar.NewOptions64(size,
		progressbar.OptionSetWriter(w), progressbar.OptionShowBytes(true), progressbar.OptionSetWidth(30),
		progressbar.OptionThrottle(200*time.Millisecond), progressbar.OptionSetPredictTime(true), progressbar.OptionClearOnFinish())}
}

func (b *bar) show() {
	if b.calls++; b.line != nil && b.calls%64 == 0 {
		read, _ := b.files.Progress()
		// A bar that cannot be drawn is no reason to stop.
		_ = b.line.Set64(read)
	}
}

func (b *bar) end() {
	if b.line != nil {
		_ = b.line.Finish()
	}
}

// tellLines says on stderr what was wrong with the logs, and returns the error
// of those that are no access logs or broke off.
func tellLines(w io.Writer, names []string, s *accesslog.Summary) error {
	plural := func(n int64, one, many string) string {
		if n == 1 {
			return "1 " + one
		}
		return fmt.Sprintf("%d %s", n, many)
	}
	for _, b := range s.Examples {
		fmt.Fprintf(w, "weir: note: %s:%d: %s\n", names[b.File], b.Line, b.Why)
	}
	if more := s.Bad - int64(len(s.Examples)); more > 0 {
		fmt.Fprintf(w, "weir: note: and %s that could not be read\n", plural(more, "more line", "more lines"))
	}
	switch {
	case s.Misplaced > 0:
		fmt.Fprintf(w, "weir: note: %s further out of order than lines are put in order; %s, and counted at the time that was reached\n",
			plural(s.Late, "line stands", "lines stand"), plural(s.Misplaced, "came too late", "came too late"))
	case s.Late > 0:
		fmt.Fprintf(w, "weir: note: %s far out of order; all were put in order\n", plural(s.Late, "line stands", "lines stand"))
	}
	for _, err := range s.Broken {
		fmt.Fprintln(w, "weir: error:", err)
	}
	for _, name := range s.Unread {
		fmt.Fprintf(w, "weir: error: %s is no access log that can be read; not one of its lines could\n", name)
	}
	if len(s.Unread) > 0 {
		fmt.Fprintln(w, "weir: hint: --format names a format; the formats are", strings.Join(accesslog.FormatNames(), " "))
		return errWrongPolicy
	}
	if len(s.Broken) > 0 {
		return errFailed
	}
	return nil
}

// loadRun opens a replay of a policy file.
func loadRun(name string, o replay.Options) (*replay.Run, *policyfile.File, error) {
	f, err := policyfile.Load(name)
	if err != nil {
		return nil, nil, misuse("", "%w", err)
	}
	run, err := openRun(f, o)
	return run, f, err
}

func openRun(f *policyfile.File, o replay.Options) (*replay.Run, error) {
	r, err := identity.NewResolver(f.Identity())
	if err != nil {
		return nil, misuse("", "%s: %w", f.Name, err)
	}
	o.Wants = replay.WantsOf(f.Policy, len(f.ClientIP.TrustedProxies) > 0)
	return replay.New(f.Policy, r, o)
}
