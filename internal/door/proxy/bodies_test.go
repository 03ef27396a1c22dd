package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"testing"
)

// TestLargeBodies: a gigabyte up and a gigabyte down, and what the process holds
// stays as it was.
func TestLargeBodies(t *testing.T) {
	size := int64(1 << 30)
	if testing.Short() {
		size = 64 << 20
	}
	const room = 32 << 20
	b := newBench(t, settings{options: Options{Attrs: []BodyAttr{{Name: "a", Field: "a"}}}}, func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if r.Method == "POST" {
			fmt.Fprint(w, n, err)
			return
		}
		w.Header().Set("Content-Length", fmt.Sprint(size))
		if n, err := io.Copy(w, io.LimitReader(zeros{}, size)); err != nil {
			t.Errorf("sent %d: %v", n, err)
		}
	})
	var most, before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	look := func() {
		var now runtime.MemStats
		if runtime.ReadMemStats(&now); now.HeapAlloc > most.HeapAlloc {
			most = now
		}
	}
	body := &watched{Reader: io.LimitReader(zeros{}, size), look: look}
	if w, got := b.do(t, "POST", "/", body, "Content-Type", form); w.StatusCode != 200 || got != fmt.Sprint(size, nil) {
		t.Errorf("up: %d %q", w.StatusCode, got)
	}
	r, err := http.NewRequestWithContext(t.Context(), "GET", b.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	w, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, &watched{Reader: w.Body, look: look})
	if err := errors.Join(err, w.Body.Close()); err != nil || n != size {
		t.Errorf("down: %d bytes, %v", n, err)
	}
	if grown := int64(most.HeapAlloc) - int64(before.HeapAlloc); grown > room {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	} else {
		t.Logf("the heap grew by %d KiB at most", grown>>10)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// watched is a body that has the heap looked at every 64 MiB.
type watched struct {
	io.Reader
	look        func()
	read, asked int64
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if w.read += int64(n); w.read >= w.asked {
		w.look()
		w.asked += 64 << 20
	}
	return n, err
}

// TestEarlyAnswer: an upstream that answers without reading the body is heard,
// and the next requests are none the worse.
func TestEarlyAnswer(t *testing.T) {
	b := newBench(t, settings{}, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			http.Error(w, "too much", http.StatusRequestEntityTooLarge)
			return
		}
		fmt.Fprint(w, "fine")
	})
	heard := 0
	for range 20 {
		r, err := http.NewRequestWithContext(t.Context(), "POST", b.url, bytes.NewReader(make([]byte, 4<<20)))
		if err != nil {
			t.Fatal(err)
		}
		// A client that is still writing may find its connection closed before it
		// reads the answer: HTTP/1 has no better way to be told.
		if w, err := http.DefaultTransport.RoundTrip(r); err == nil {
			heard++
			_, err = io.Copy(io.Discard, w.Body)
			if w.StatusCode != http.StatusRequestEntityTooLarge || errors.Join(err, w.Body.Close()) != nil {
				t.Errorf("%d %v", w.StatusCode, err)
			}
		}
		if w, got := b.do(t, "GET", "/", nil); w.StatusCode != 200 || got != "fine" {
			t.Fatalf("afterwards: %d %q", w.StatusCode, got)
		}
	}
	if heard == 0 {
		t.Error("no answer was heard of 20")
	}
}
