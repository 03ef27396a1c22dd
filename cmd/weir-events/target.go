package main

import (
	"context"
	"strconv"
	"strings"
	"time"
)

// openTarget opens what --to and --from name.
func openTarget(ctx context.Context, name string) (target, error) {
	kind, rest, _ := strings.Cut(name, ":")
	switch {
	case kind == "sqlite" && rest != "":
		return openSQLite(ctx, rest)
	case kind == "postgres" || kind == "postgresql":
		return openPostgres(ctx, name)
	case kind == "jsonl" && rest != "":
		return openLines(rest)
	}
	return nil, misuse("%q is no database: write sqlite:FILE, postgres://… or jsonl:FILE", kind)
}

func formatMS(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
