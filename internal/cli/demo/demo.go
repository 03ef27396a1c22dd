// Package demo shows Weir at work in one terminal: an upstream, a limiting
// proxy in front of it, the API, and callers of three tempers.
package demo

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/weirhq/weir/internal/daemon"
	"github.com/weirhq/weir/internal/door/proxy"
	"github.com/weirhq/weir/policy/policyfile"
)

// Options configures Run.
type Options struct {
	Policy string        // file; written if it is not there; "" for one that goes with the demo
	For    time.Duration // 0 until ctx ends
	JSON   bool          // what happens as one JSON object a line
	Live   bool          // Out is a terminal on which a table can be drawn over
	Width  int           // of that terminal; 0 if unknown
	Out    io.Writer
}

//go:embed policy.yaml
var sample []byte

// Run runs the demo until ctx ends or its time is over.
func Run(ctx context.Context, o Options) (err error) {
	if o.For > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.For)
		defer cancel()
	}
	file, remove, err := o.writePolicy()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	policy, err := policyfile.Load(file)
	if err != nil {
		return err
	}
	upstream, stop, err := serveUpstream()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	s := &show{Options: o, file: file, callers: tempers()}
	return daemon.Run(ctx, daemon.Config{
		File: policy, Watch: true,
		Doors: []daemon.Door{
			daemon.HTTP(daemon.Listen{Address: "127.0.0.1:8080", OrAny: true}),
			daemon.Proxy(daemon.Listen{Address: "127.0.0.1:8000", OrAny: true}, proxy.Options{Upstreams: []*url.URL{upstream}}),
		},
		Log:      slog.New(slog.DiscardHandler),
		Grace:    time.Second,
		Reloaded: s.reloaded,
		Beside:   s.run,
	})
}

// writePolicy returns the policy file and what removes it again.
func (o *Options) writePolicy() (file string, remove func() error, err error) {
	keep := func() error { return nil }
	if o.Policy != "" {
		f, err := os.OpenFile(o.Policy, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, os.ErrExist) {
			return o.Policy, keep, nil
		}
		if err != nil {
			return "", nil, err
		}
		_, err = f.Write(sample)
		return o.Policy, keep, errors.Join(err, f.Close())
	}
	folder, err := os.MkdirTemp("", "weir-demo-")
	if err != nil {
		return "", nil, err
	}
	file = filepath.Join(folder, "weir.yaml")
	if err := os.WriteFile(file, sample, 0o644); err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(folder))
	}
	return file, func() error { return os.RemoveAll(folder) }, nil
}

// serveUpstream serves the API that is to be protected.
func serveUpstream() (*url.URL, func() error, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	server := &http.Server{
		ReadHeaderTimeout: 5 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.Header().Set("X-Content-Type-Options", "nosniff")
			// A client that has gone away needs no answer.
			_, _ = fmt.Fprintf(w, "%s %s, says the upstream\n", r.Method, r.URL.EscapedPath())
		}),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	stop := func() error {
		err := server.Close()
		if fault := <-ended; !errors.Is(fault, http.ErrServerClosed) {
			err = errors.Join(err, fault)
		}
		return err
	}
	return &url.URL{Scheme: "http", Host: listener.Addr().String()}, stop, nil
}
