package report

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// Machine says where and on what the figures were found. What cannot be told is
// left out.
func Machine() string {
	var b strings.Builder
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "- %s: %s\n", name, value)
		}
	}
	line("date", time.Now().UTC().Format(time.DateOnly))
	line("commit", commit())
	line("processor", fmt.Sprintf("%s, %d cores", processor(), runtime.NumCPU()))
	line("system", runtime.GOOS+"/"+runtime.GOARCH)
	line("Go", runtime.Version())
	line("Redis", output("redis-server", "--version"))
	line("load average at the end", loadAverage())
	return b.String()
}

func commit() string {
	c := output("git", "rev-parse", "--short", "HEAD")
	if c != "" && output("git", "status", "--porcelain", "--untracked-files=no") != "" {
		c += " with changes"
	}
	return c
}

func processor() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

func loadAverage() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	fields := strings.Fields(string(b))
	if len(fields) == 0 {
		return ""
	}
	return fields[0]
}

// output returns the first line a command prints, "" if it fails.
func output(name string, args ...string) string {
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(first)
}
