package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx
	_ "modernc.org/sqlite"             // the driver sqlite

	"github.com/weirhq/weir/observe/stream"
)

// sqlTarget keeps events in a table, each once by its id, and positions of
// sources beside it. A batch is one transaction.
type sqlTarget struct{ db *sql.DB }

// Both databases understand all of this; $1 is a parameter in both.
const (
	tables = `
CREATE TABLE IF NOT EXISTS weir_events (
	id text PRIMARY KEY, ts_ms bigint NOT NULL, instance text NOT NULL, rule text NOT NULL, tenant text NOT NULL, plan text NOT NULL,
	route text NOT NULL, key_hash text NOT NULL, cost bigint NOT NULL, allowed boolean NOT NULL, reason text NOT NULL, source text NOT NULL,
	weight double precision NOT NULL
);
CREATE INDEX IF NOT EXISTS weir_events_ts ON weir_events (ts_ms);
CREATE TABLE IF NOT EXISTS weir_positions (source text PRIMARY KEY, position text NOT NULL)`
	columns     = "id, ts_ms, instance, rule, tenant, plan, route, key_hash, cost, allowed, reason, source, weight"
	columnCount = 13
)

// openSQLite opens a file. A committed batch is on the disk: the event is
// acknowledged right after.
func openSQLite(file string) (*sqlTarget, error) {
	return sqlite(file, "rwc", "journal_mode(WAL)", "synchronous(FULL)", "busy_timeout(10000)")
}

// readSQLite opens a file that is there. Who reads has to write in its folder, as
// SQLite has it: there stands what readers and the writer share.
func readSQLite(file string) (*sqlTarget, error) {
	if _, err := os.Stat(file); err != nil {
		return nil, misuse("sqlite:%w", err)
	}
	return sqlite(file, "rw", "busy_timeout(10000)")
}

func sqlite(file, mode string, pragmas ...string) (*sqlTarget, error) {
	q := url.Values{"mode": {mode}, "_txlock": {"immediate"}, "_pragma": pragmas}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: file}).EscapedPath()+"?"+q.Encode())
	if err != nil {
		return nil, misuse("sqlite:%s: %w", file, err)
	}
	db.SetMaxOpenConns(1) // it has one writer anyway
	return &sqlTarget{db}, nil
}

func openPostgres(name string) (*sqlTarget, error) {
	db, err := sql.Open("pgx", name)
	if err != nil { // its text may hold the password
		return nil, misuse("the postgres URL cannot be read")
	}
	return &sqlTarget{db}, nil
}

// prepared returns t with its tables, which are made if they are not there.
func prepared(ctx context.Context, t *sqlTarget, err error) (target, error) {
	if err != nil {
		return nil, err
	}
	if t.ready(ctx) {
		return t, nil
	}
	for statement := range strings.SplitSeq(tables, ";") {
		// Two that create the table at a time: to PostgreSQL one is in the other's way.
		if _, err := t.db.ExecContext(ctx, statement); err != nil {
			if _, err = t.db.ExecContext(ctx, statement); err != nil {
				return nil, errors.Join(fmt.Errorf("the tables cannot be made: %w", err), t.close())
			}
		}
	}
	return t, nil
}

// ready reports whether the tables are there. PostgreSQL lets only those who may make
// tables say IF NOT EXISTS, and who writes events need not be one.
func (t *sqlTarget) ready(ctx context.Context) bool {
	for _, rows := range []string{"SELECT " + columns + " FROM weir_events LIMIT 1", "SELECT source, position FROM weir_positions LIMIT 1"} {
		var n int
		if t.db.QueryRowContext(ctx, "SELECT count(*) FROM ("+rows+") AS one").Scan(&n) != nil {
			return false
		}
	}
	return true
}

func (t *sqlTarget) position(ctx context.Context, source string) (position string, err error) {
	err = t.db.QueryRowContext(ctx, `SELECT position FROM weir_positions WHERE source = $1`, source).Scan(&position)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return position, err
}

func (t *sqlTarget) keep(ctx context.Context, source string, b batch) (added int64, err error) {
	tx, err := t.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreDone(tx.Rollback()))
		}
	}()
	if len(b.events) > 0 {
		result, err := tx.ExecContext(ctx, insert(len(b.events)), values(b.events)...)
		if err != nil {
			return 0, err
		}
		if added, err = result.RowsAffected(); err != nil {
			return 0, err
		}
	}
	if b.position != "" {
		if _, err := tx.ExecContext(ctx, `INSERT INTO weir_positions (source, position) VALUES ($1, $2)
			ON CONFLICT (source) DO UPDATE SET position = excluded.position`, source, b.position); err != nil {
			return 0, err
		}
	}
	return added, tx.Commit()
}

func ignoreDone(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}

// insert returns the statement for n events.
func insert(n int) string {
	var b strings.Builder
	b.WriteString("INSERT INTO weir_events (" + columns + ") VALUES ")
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		for j := range columnCount {
			mark := byte(',')
			if j == 0 {
				mark = '('
			}
			fmt.Fprintf(&b, "%c$%d", mark, i*columnCount+j+1)
		}
		b.WriteByte(')')
	}
	b.WriteString(" ON CONFLICT (id) DO NOTHING")
	return b.String()
}

func values(events []stream.Event) []any {
	all := make([]any, 0, len(events)*columnCount)
	for i := range events {
		e := &events[i]
		all = append(all, e.ID, e.TimeMS, text(e.Instance), text(e.Rule), text(e.Tenant), text(e.Plan), text(e.Route), text(e.KeyHash),
			e.Cost, e.Allowed, text(e.Reason), text(e.Source), e.Weight)
	}
	return all
}

// text is s as PostgreSQL takes it, which takes neither zero bytes nor what is no
// UTF-8.
func text(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\ufffd"), "\ufffd")
}

func (t *sqlTarget) close() error { return t.db.Close() }
