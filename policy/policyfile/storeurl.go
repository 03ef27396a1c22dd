package policyfile

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// The stores there are. What opens them is another room, which this one must not
// know; a test of internal/daemon holds the two to each other.
var schemes = []string{
	"memory", "redis", "rediss", "redis+sentinel", "redis+cluster", "rediss+sentinel", "rediss+cluster", "unix",
	"valkey", "valkeys", "valkey+sentinel", "valkey+cluster", "valkeys+sentinel", "valkeys+cluster",
}

// storeURL reads where the store is. It may hold a password, so no message
// quotes what may be part of one.
func (r *reader) storeURL(n *node, path string, to *string) {
	if isNull(n) {
		return
	}
	s, ok := r.scalar(n, path)
	if !ok {
		return
	}
	name, rest, _ := strings.Cut(s, "://")
	switch {
	case s == "memory":
	case !slices.Contains(schemes, name) && rest != "":
		r.fail(n, "unknown store %q%s", clip(name), didYouMean(name, schemes))
		return
	case rest == "":
		r.fail(n, "must be memory, or the URL of a store such as redis://127.0.0.1:6379/0")
		return
	default:
		if fault := storeFault(name, rest); fault != "" {
			r.fail(n, "%s", fault)
			return
		}
	}
	*to = s
}

// storeFault says what is wrong with the URL of a store, or "".
func storeFault(scheme, rest string) string {
	at := strings.LastIndexByte(rest, '@')
	if at >= 0 {
		if _, err := url.PathUnescape(rest[:at]); err != nil {
			return "the user or password in the URL is not percent-encoded rightly"
		}
	}
	rest = rest[at+1:]
	if scheme == "unix" {
		if !strings.HasPrefix(rest, "/") {
			return "unix:// needs an absolute path, as in unix:///run/redis.sock"
		}
		return ""
	}
	if strings.Contains(rest, "?") {
		return "a store's URL has no parameters; use the fields beside url:"
	}
	hosts, path, _ := strings.Cut(rest, "/")
	for host := range strings.SplitSeq(hosts, ",") {
		name, port, err := net.SplitHostPort(host)
		if err != nil {
			name, port = strings.Trim(host, "[]"), "6379"
		}
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return fmt.Sprintf("%q is no port; one lies between 1 and 65535", clip(port))
		}
		if u, err := url.Parse("redis://" + host); err != nil || u.Host == "" || name == "" {
			return "is no URL of a store; write one such as redis://127.0.0.1:6379/0"
		}
	}
	_, topology, _ := strings.Cut(scheme, "+")
	switch {
	case topology == "" && strings.Contains(hosts, ","):
		return "several hosts need redis+sentinel:// or redis+cluster://"
	case topology == "" && path != "":
		if n, err := strconv.Atoi(path); err != nil || n < 0 {
			return fmt.Sprintf("%q is no number of a database", clip(path))
		}
	case topology == "sentinel" && (path == "" || strings.Contains(path, "/")):
		return "redis+sentinel:// needs the master's name, as in redis+sentinel://host:port,host:port/master"
	case topology == "cluster" && path != "":
		return "a cluster has no databases; leave out the path"
	}
	return ""
}
