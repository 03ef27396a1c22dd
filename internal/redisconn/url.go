package redisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// Parse reads a store URL. It is done by hand where several hosts may stand,
// since net/url takes only one. Errors never show the user part.
func Parse(s string) (option rueidis.ClientOption, cluster bool, err error) {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		return option, false, errors.New("store: a URL such as redis://127.0.0.1:6379/0 is needed")
	}
	at := strings.LastIndexByte(rest, '@')
	if scheme == "unix" { // a path may hold one: what ends the user part stands before it
		if at = strings.Index(rest, "@/"); strings.HasPrefix(rest, "/") {
			at = -1
		}
	}
	if at >= 0 {
		if err := credentials(&option, rest[:at]); err != nil {
			return option, false, err
		}
		rest = rest[at+1:]
	}
	if scheme == "unix" {
		return parseUnix(option, rest)
	}
	rest, query, _ := strings.Cut(rest, "?")
	if query != "" {
		return option, false, errors.New("store: URL parameters are not supported; use the settings beside url")
	}
	hosts, path, _ := strings.Cut(rest, "/")
	for _, host := range strings.Split(hosts, ",") {
		addr, err := address(host)
		if err != nil {
			return option, false, err
		}
		option.InitAddress = append(option.InitAddress, addr)
	}
	base, topology, _ := strings.Cut(scheme, "+")
	switch base {
	case "redis", "valkey":
	case "rediss", "valkeys":
		host, _, _ := net.SplitHostPort(option.InitAddress[0])
		option.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: host}
		if topology != "" {
			option.TLSConfig.ServerName = "" // differs from node to node
		}
	default:
		return option, false, fmt.Errorf("store: unknown scheme %q; use redis rediss redis+sentinel redis+cluster unix", scheme)
	}
	switch topology {
	case "":
		if len(option.InitAddress) > 1 {
			return option, false, errors.New("store: several hosts need redis+sentinel:// or redis+cluster://")
		}
		option.ForceSingleClient = true
		return option, false, database(&option, path)
	case "sentinel":
		if path == "" || strings.Contains(path, "/") {
			return option, false, errors.New("store: redis+sentinel:// needs the master's name: redis+sentinel://host:port,host:port/master")
		}
		option.Sentinel = rueidis.SentinelOption{MasterSet: path, TLSConfig: option.TLSConfig}
		return option, false, nil
	case "cluster":
		if path != "" {
			return option, false, errors.New("store: a cluster has no databases; leave out the path")
		}
		return option, true, nil
	}
	return option, false, fmt.Errorf("store: unknown topology %q; use sentinel or cluster", topology)
}

func parseUnix(option rueidis.ClientOption, path string) (rueidis.ClientOption, bool, error) {
	if !strings.HasPrefix(path, "/") {
		return option, false, errors.New("store: unix:// needs an absolute path, as in unix:///run/redis.sock")
	}
	option.InitAddress = []string{path}
	option.ForceSingleClient = true
	option.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
		return d.DialContext(ctx, "unix", addr)
	}
	return option, false, nil
}

func credentials(o *rueidis.ClientOption, s string) error {
	user, password, _ := strings.Cut(s, ":")
	var errUser, errPassword error
	o.Username, errUser = url.PathUnescape(user)
	o.Password, errPassword = url.PathUnescape(password)
	if errUser != nil || errPassword != nil {
		return errors.New("store: the user or password in the URL is not percent-encoded rightly")
	}
	return nil
}

func address(host string) (string, error) {
	if host == "" {
		return "", errors.New("store: a host is missing in the URL")
	}
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name, port = strings.Trim(host, "[]"), "6379"
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return "", fmt.Errorf("store: %q is not a port", port)
	}
	if name == "" {
		return "", errors.New("store: a host is missing in the URL")
	}
	return net.JoinHostPort(name, port), nil
}

func database(o *rueidis.ClientOption, path string) error {
	if path == "" {
		return nil
	}
	n, err := strconv.Atoi(path)
	if err != nil || n < 0 {
		return fmt.Errorf("store: %q is not a database number", path)
	}
	o.SelectDB = n
	return nil
}

// RefusedError is a server that answers and will not serve us, which trying again
// does not mend.
type RefusedError struct {
	Database bool // it has no such database; else the user or the password is wrong
	Err      error
}

// Error returns the server's words.
func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns the server's answer.
func (e *RefusedError) Unwrap() error { return e.Err }

// refused returns the *RefusedError that err is, or nil.
func refused(err error) error {
	answer, ok := rueidis.IsRedisErr(err)
	if !ok {
		return nil
	}
	text := answer.Error()
	if strings.Contains(text, "DB index is out of range") {
		return &RefusedError{Database: true, Err: answer}
	}
	for _, word := range []string{"WRONGPASS", "NOAUTH", "NOPERM"} {
		if strings.HasPrefix(text, word) {
			return &RefusedError{Err: answer}
		}
	}
	if strings.Contains(text, "without any password configured") || strings.Contains(text, "invalid username-password") {
		return &RefusedError{Err: answer}
	}
	return nil
}
