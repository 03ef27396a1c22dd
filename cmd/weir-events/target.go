package main

import (
	"context"
	"strconv"
	"strings"
	"time"
)

// openTarget opens what --to names, and makes it if it is not there.
func openTarget(ctx context.Context, name string) (target, error) {
	kind, rest, _ := strings.Cut(name, ":")
	switch {
	case kind == "sqlite" && rest != "":
		t, err := openSQLite(rest)
		return prepared(ctx, t, err)
	case kind == "postgres" || kind == "postgresql":
		t, err := openPostgres(name)
		return prepared(ctx, t, err)
	case kind == "jsonl" && rest != "":
		return openLines(rest)
	}
	return nil, noDatabase(kind)
}

// openRead opens what --from names, other than lines, and changes nothing in it: who
// reads need not be allowed more, and a name that is misspelt is none.
func openRead(name string) (*sqlTarget, error) {
	kind, rest, _ := strings.Cut(name, ":")
	switch {
	case kind == "sqlite" && rest != "":
		return readSQLite(rest)
	case kind == "postgres" || kind == "postgresql":
		return openPostgres(name)
	}
	return nil, noDatabase(kind)
}

func noDatabase(kind string) error {
	return misuse("%q is no database: write sqlite:FILE, postgres://… or jsonl:FILE", kind)
}

func formatMS(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
