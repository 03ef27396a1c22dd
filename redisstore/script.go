package redisstore

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"regexp"
	"strings"
)

//go:embed lua/*.lua
var sources embed.FS

// script is one text as the server knows it.
type script struct{ text, sha string }

// shebang declares the script to Redis 7 and Valkey: it may run while memory is
// over maxmemory, since its states are tiny and all expire. Two servers want the
// plain text instead: Redis 6.2, to which a shebang is a syntax error, and one
// that refuses writes, which turns a declared script away whole where the plain
// one still answers denials and peeks.
const shebang = "#!lua flags=allow-oom\n"

// scripts are the texts of one store: they differ in where the time comes from
// and in whether they declare themselves.
type scripts struct{ take, command, fingerprint, instances, mark, load, tell, hear script }

func composeScripts(givenClock, plain bool) scripts {
	clock := "1_clock_server"
	if givenClock {
		clock = "1_clock_given"
	}
	head := shebang
	if plain {
		head = ""
	}
	return scripts{
		take:    compose(head, clock, "1_take_lone", "1_take_usual", "2_exact", "3_state", "4_judge", "5_take"),
		command: compose(head, clock, "2_exact", "3_state", "4_judge", "5_command", "6_repay", "6_loans", "7_refund"),

		fingerprint: compose(head, "5_fingerprint"),
		instances:   compose(head, clock, "5_instances"),
		mark:        compose(head, "5_mark"),
		load:        compose(head, "5_load"),
		tell:        compose(head, clock, "2_exact", "3_state", "5_tell"),
		hear:        compose(head, clock, "2_exact", "3_state", "4_judge", "8_hear"),
	}
}

// compose joins parts of lua/ into one script.
func compose(head string, parts ...string) script {
	var b strings.Builder
	b.WriteString(head)
	for _, name := range parts {
		b.WriteString(source(name))
		b.WriteByte('\n')
	}
	text := b.String()
	sum := sha1.Sum([]byte(text))
	return script{text, hex.EncodeToString(sum[:])}
}

// source returns the text of a part. A line "--< name" in it stands for the
// statements of another one: what several ways do alike is written once, and where
// a call would cost as much as what is done there is none.
func source(name string) string {
	text, err := sources.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic("redisstore: " + err.Error()) // embedded at build time: cannot happen
	}
	return inserted.ReplaceAllStringFunc(string(text), func(line string) string {
		return source(strings.TrimPrefix(strings.TrimSpace(line), "--< "))
	})
}

var inserted = regexp.MustCompile(`(?m)^ *--< \w+$`)
