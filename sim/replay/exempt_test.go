package replay

import (
	"strings"
	"testing"
)

// TestExemptByLoggedHeader: an exempt entry sees the header fields that a log
// has, though no rule asks for them.
func TestExemptByLoggedHeader(t *testing.T) {
	log := ""
	for i := range 3 {
		log += at(i, "192.0.2.1", "GET /")
	}
	r := replayText(t, `exempt: [{ips: [192.0.2.0/24], headers: {User-Agent: agent/192.0.2.1}}]
limits: [{name: caller, key: [ip], limit: 1/min}]
`, log)
	if r.Denied != 0 {
		t.Errorf("%d of 3 exempt requests are refused", r.Denied)
	}
}

// TestUnseenExemptions: what a log does not tell is told also where an exemption
// or a match.not hangs on it.
func TestUnseenExemptions(t *testing.T) {
	notes := Unseen(policyOf(t, `exempt: [{paths: [/healthz]}, {ips: [192.0.2.1], headers: {X-Probe: "1"}}]
limits: [{name: a, match: {not: {headers: {X-Debug: "1"}}}, key: [ip], limit: 5/min}]
`).Policy)
	if text := strings.Join(notes, "\n"); len(notes) != 2 || !strings.Contains(text, "exempt[1]") || !strings.Contains(text, `match.not of rule "a"`) {
		t.Errorf("%q", notes)
	}
}
