package mainjob

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// request is one line of an access log that can be sent again.
type request struct{ client, method, target string }

// aRequest matches the lines of common and combined logs whose client is an
// address and whose request has a path. Clients by name, TLS bytes and aborted
// requests are passed over, here as in countRefused.
var aRequest = regexp.MustCompile(`^([0-9.]+|[0-9a-f]*:[0-9a-f:]+) \S+ \S+ \[\S+ \S+\] "(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS) (/\S*) HTTP/`)

func readLog(t *testing.T, file string) (requests []request) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if m := aRequest.FindStringSubmatch(lines.Text()); m != nil {
			requests = append(requests, request{m[1], m[2], m[3]})
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return requests
}

// countRefused asks awk, which knows nothing of Weir, how many requests of the
// log a limit of n for each client refuses.
func countRefused(t *testing.T, file string, n int) (requests, refused int) {
	t.Helper()
	const program = `
		$1 ~ /^([0-9.]+|[0-9a-f]*:[0-9a-f:]+)$/ && $6 ~ /^"(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS)$/ &&
		$7 ~ /^\// && $8 ~ /^HTTP\// { count[$1]++; total++ }
		END { for (c in count) if (count[c] > n) refused += count[c] - n; print total + 0, refused + 0 }`
	out, err := exec.Command("awk", "-v", "n="+strconv.Itoa(n), program, file).Output()
	if err != nil {
		t.Fatalf("awk: %v", err)
	}
	if _, err := fmt.Sscan(strings.TrimSpace(string(out)), &requests, &refused); err != nil {
		t.Fatalf("awk said %q: %v", out, err)
	}
	return requests, refused
}
