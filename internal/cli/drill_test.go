package cli_test

import (
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/testredis"
)

const drillable = `
decision_timeout: 1s
limits:
  - {name: closed, match: {paths: [/closed]}, key: [ip], limit: 1000000/s, on_store_failure: closed}
  - {name: open, match: {paths: [/open]}, key: [ip], limit: 1/day, on_store_failure: open}
`

// TestDrill: faults come when they are asked for, are answered as the limits
// state, and end when asked to and by themselves; the log says who.
func TestDrill(t *testing.T) {
	p := start(t, "serve", "-c", policyFile(t, drillable), "--http", "127.0.0.1:0", "--drain-notice", "1ms",
		"--store", testredis.Start(t).URL(), "--allow-drills")
	answers := func(path, reason string) {
		t.Helper()
		until(t, func() string {
			if d, err := p.check("GET", path, "192.0.2.1", ""); err != nil || d.Reason != reason {
				return path + " is " + d.Reason + ", want " + reason
			}
			return ""
		})
	}
	answers("/closed", "ok")
	for _, fault := range []string{"unreachable", "stall", "latency", "refusal"} {
		args := []string{"drill", fault, "--for", "10m", "--by", "ann", "--addr", p.admin}
		if fault == "latency" {
			args = append(args, "--latency", "5s")
		}
		if said := tell(t, 0, args...); !strings.Contains(said, "("+fault+") until ") {
			t.Errorf("the command says %s", said)
		}
		answers("/closed", "failed_closed")
		if fault == "unreachable" {
			answers("/open", "failed_open")
		}
		tell(t, 0, "drill", fault, "--for", "0s", "--addr", p.admin)
		answers("/closed", "ok")
	}
	tell(t, 0, "drill", "unreachable", "--for", "8s", "--addr", p.admin)
	answers("/closed", "failed_closed")
	answers("/closed", "ok")
	until(t, func() string {
		if p.count(`"msg":"the drill is over"`) != 5 {
			return "the log does not tell of every end"
		}
		return ""
	})
	if p.count(`"msg":"a drill begins: the store fails on purpose"`) != 5 || p.count(`"by":"ann","from":"127.0.0.1"`) != 4 {
		t.Error("the log does not say who asked")
	}
	for body, field := range map[string]string{
		`{"fault":"fire","for":"1s"}`:                       "fault",
		`{"fault":"stall"}`:                                 "for",
		`{"fault":"stall","for":"11m"}`:                     "for",
		`{"fault":"stall","for":"1s","percent":0}`:          "percent",
		`{"fault":"latency","for":"1s"}`:                    "latency",
		`{"fault":"refusal","for":"1s","reply":"NONSENSE"}`: "reply",
	} {
		if status, answer := postTo(t, p.admin+"/v1/drill", body); status != 400 || !strings.Contains(answer, `"field":"`+field+`"`) {
			t.Errorf("%s: %d %s", body, status, answer)
		}
	}
}

// TestDrillsAreOffUnlessAllowed: nobody can make a store fail by accident.
func TestDrillsAreOffUnlessAllowed(t *testing.T) {
	p := start(t, "serve", "--http", "127.0.0.1:0", "--store", testredis.Start(t).URL(), "--drain-notice", "1ms")
	if said := tell(t, 2, "drill", "stall", "--for", "1s", "--addr", p.admin); !strings.Contains(said, "--allow-drills") {
		t.Errorf("the command says %s", said)
	}
}
