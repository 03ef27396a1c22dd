package check

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/weirhq/weir/internal/doorcost"
)

func TestMain(m *testing.M) { doorcost.Main(m, func(string) { serveConstant() }) }

// serveConstant serves what a take is answered, fields and all, without deciding.
func serveConstant() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	body := []byte(`{"allowed":true,"reason":"ok","source":"memory","limit":1000000,"remaining":999999,"retry_after_ms":0,"reset_after_ms":1,"delay_ms":0,"binding":0,"charges":[{"allowed":true,"reason":"ok","source":"memory","limit":1000000,"remaining":999999,"retry_after_ms":0,"reset_after_ms":1,"delay_ms":0}]}` + "\n")
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("RateLimit-Limit", "1000000")
		h.Set("RateLimit-Remaining", "999999")
		h.Set("RateLimit-Reset", "1")
		h.Set("RateLimit-Policy", `"default";q=1000000;w=60`)
		h.Set("RateLimit", `"default";r=999999;t=1`)
		_, _ = w.Write(body)
	})}
	go func() { _ = s.Serve(l) }()
	doorcost.Ready(l.Addr().String())
	_ = s.Close()
}

// TestCost is POST /v1/take beside a constant behind net/http.
func TestCost(t *testing.T) {
	door := func(t *testing.T) *doorcost.Server {
		return doorcost.Weir(t, "http", "--admin", "off", "--http", "127.0.0.1:0")
	}
	most := 1.2
	if !doorcost.Long() {
		most = 3 // short rounds on a busy machine
	}
	doorcost.Compare(t, "HTTP take", door, doorcost.Constant, doorcost.Scale(40_000), most, func(t *testing.T, addr string, calls int) {
		const callers, keys = 32, 10_000
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers}}
		defer client.CloseIdleConnections()
		var all sync.WaitGroup
		for c := range callers {
			all.Go(func() {
				for i := range calls / callers {
					body := fmt.Appendf(nil, `{"key":"user:%d","limit":"1000000/min"}`, (i*callers+c)%keys)
					res, err := client.Post("http://"+addr+"/v1/take", "application/json", bytes.NewReader(body))
					if err != nil {
						t.Error(err)
						return
					}
					if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
						t.Errorf("%d, %v", res.StatusCode, err)
					}
					_ = res.Body.Close()
				}
			})
		}
		all.Wait()
	})
}

// TestCrowd has idle and slow connections at the door.
func TestCrowd(t *testing.T) {
	door := doorcost.Weir(t, "http", "--admin", "off", "--http", "127.0.0.1:0")
	doorcost.Crowd(t, door, "POST /v1/take HTTP/1.1\r\nHo", func() error {
		res, err := http.Post("http://"+door.Addr+"/v1/take", "application/json", bytes.NewReader([]byte(`{"key":"k","limit":"100000/s"}`)))
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("%s", res.Status)
		}
		return nil
	})
}
