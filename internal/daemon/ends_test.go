package daemon

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"
)

// TestDoorsEndTogether: a request that takes long at one door does not eat the time
// of the others: they leave as soon, and answer what is in flight.
func TestDoorsEndTogether(t *testing.T) {
	asked, answer := map[string]chan struct{}{}, map[string]chan struct{}{}
	var c Config
	for _, name := range []string{"slow", "other"} {
		asked[name], answer[name] = make(chan struct{}), make(chan struct{})
		c.Doors = append(c.Doors, Door{Name: name, Listen: Listen{Address: "127.0.0.1:0"}, Open: func(c *Core, name string, l *Listen) (Server, error) {
			return newHTTPServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				close(asked[name])
				<-answer[name]
				_, _ = io.WriteString(w, name)
			}), streamTimeouts, c.log, name, l)
		}})
	}
	opened := make(chan map[string]net.Addr, 1)
	c.Log, c.Notice, c.Grace = slog.New(slog.DiscardHandler), time.Millisecond, 10*patience
	c.Beside = func(ctx context.Context, addresses map[string]net.Addr) error {
		opened <- addresses
		<-ctx.Done()
		return nil
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, c) }()
	addresses := <-opened
	got := map[string]chan string{}
	for name, at := range addresses {
		got[name] = make(chan string, 1)
		go func() {
			w, err := http.Get("http://" + at.String())
			if err != nil {
				got[name] <- err.Error()
				return
			}
			text, err := io.ReadAll(w.Body)
			_ = w.Body.Close()
			if err != nil {
				text = []byte(err.Error())
			}
			got[name] <- string(text)
		}()
		<-asked[name]
	}
	end()
	for name, at := range addresses {
		until(t, func() string {
			conn, err := net.Dial("tcp", at.String())
			if err != nil {
				return ""
			}
			_ = conn.Close()
			return name + " still takes connections"
		})
	}
	for _, name := range []string{"other", "slow"} {
		close(answer[name])
		if text := <-got[name]; text != name {
			t.Errorf("%s answers %q", name, text)
		}
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
