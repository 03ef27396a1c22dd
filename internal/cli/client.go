package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/daemon"
)

// client asks a running daemon.
type client struct {
	base  string // URL without a path
	addr  string // as it was given
	token string
	hint  string // where nobody answers
	http  *http.Client
}

// clientTimeout bounds one request. A daemon answers in milliseconds.
const clientTimeout = 10 * time.Second

func newClient(addr, tokenFile, hint string) (*client, error) {
	c := &client{base: addr, addr: addr, hint: hint, http: &http.Client{Timeout: clientTimeout}}
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		c.base = "http://localhost"
		c.http.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}}
	} else if u, err := url.Parse(addr); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" {
		return nil, misuse("write http://HOST:PORT, https://HOST:PORT or unix:PATH", "%q is no address of a daemon", redacted(addr))
	}
	c.base = strings.TrimRight(c.base, "/")
	if tokenFile != "" {
		token, err := daemon.ReadSecret(tokenFile)
		if err != nil {
			return nil, misuse("", "--token-file: %w", err)
		}
		c.token = token
	}
	return c, nil
}

// redacted returns a URL without the password that it may hold, for errors. It
// need not be one that can be read.
func redacted(s string) string {
	if u, err := url.Parse(s); err == nil && u.User == nil && u.Opaque == "" {
		return s
	} else if err == nil && u.User != nil {
		return u.Redacted()
	}
	if at := strings.LastIndexByte(s, '@'); at >= 0 {
		scheme, _, found := strings.Cut(s[:at], "://")
		if !found {
			return "xxxxx" + s[at:]
		}
		return scheme + "://xxxxx" + s[at:]
	}
	return s
}

// post sends body and reads a JSON answer into answer, whatever its status: a
// denial is an answer too. A problem is an error.
func (c *client) post(ctx context.Context, path string, body, answer any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, bytes.NewReader(b))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	return c.ask(r, answer)
}

// get reads a JSON answer into answer.
func (c *client) get(ctx context.Context, path string, answer any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return err
	}
	return c.ask(r, answer)
}

func (c *client) ask(r *http.Request, answer any) error {
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	w, err := c.http.Do(r)
	if err != nil {
		var dial *net.OpError
		if errors.As(err, &dial) && dial.Op == "dial" {
			return misuse(c.hint, "nobody answers at %s: %w", redacted(c.addr), dial.Err)
		}
		return err
	}
	// What is worth reading has been read.
	defer func() { _ = w.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(w.Body, 16<<20))
	if err != nil {
		return err
	}
	if media, _, _ := mime.ParseMediaType(w.Header.Get("Content-Type")); media != "application/json" {
		return problem(w, text)
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("%s: %w", r.URL.Redacted(), err)
	}
	return nil
}

// problem returns an answer that is no decision as an error.
func problem(w *http.Response, text []byte) error {
	var p struct {
		Detail string `json:"detail"`
	}
	if err := json.Unmarshal(text, &p); err != nil || p.Detail == "" {
		return fmt.Errorf("%s answers %s", w.Request.URL.Host, w.Status)
	}
	if w.StatusCode < http.StatusInternalServerError {
		return misuse("", "%s: %s", w.Status, p.Detail)
	}
	return fmt.Errorf("%s: %s", w.Status, p.Detail)
}
