package policyfile

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// write puts text into a file whose time stamp is long past, as if it had been
// there for a while.
func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func age(t *testing.T, name string) {
	t.Helper()
	past := time.Now().Add(-time.Hour)
	if err := os.Chtimes(name, past, past); err != nil {
		t.Fatal(err)
	}
}

func rules(name string) string { return "limits: [{name: " + name + ", key: [ip], limit: 5/min}]\n" }

// polls counts how many of the next polls report a change.
func polls(w *watcher, n int) (changes int) {
	for range n {
		if w.poll() {
			changes++
		}
	}
	return changes
}

// TestWatch: each way in which a file gets new content is one change, seen once
// the content has stayed for one poll; what is no new content is none.
func TestWatch(t *testing.T) {
	folder := t.TempDir()
	name := filepath.Join(folder, "policy.yaml")
	write(t, name, rules("a"))
	w := newWatcher(name)
	step := func(what string, want int, change func()) {
		t.Helper()
		change()
		if w.poll() {
			t.Errorf("%s: a change counts before it has stayed", what)
		}
		if got := polls(w, 3); got != want {
			t.Errorf("%s: %d changes, want %d", what, got, want)
		}
	}
	other := filepath.Join(folder, "other.yaml")
	step("nothing", 0, func() {})
	step("written in place", 1, func() { write(t, name, rules("b")) })
	step("same content", 0, func() { write(t, name, rules("b")) })
	step("touched", 0, func() { age(t, name) })
	step("replaced", 1, func() {
		write(t, other, rules("c"))
		if err := os.Rename(other, name); err != nil {
			t.Fatal(err)
		}
	})
	step("broken", 1, func() { write(t, name, "limits: [") })
	step("mended", 1, func() { write(t, name, rules("c")) })
	step("same length, at once", 1, func() { write(t, name, rules("d")) })
	step("same length and stamp, another file", 1, func() {
		age(t, name)
		polls(w, 1)
		write(t, other, rules("e"))
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(other, info.ModTime(), info.ModTime()); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(other, name); err != nil {
			t.Fatal(err)
		}
	})
	step("same length and stamp, in place, just now", 1, func() {
		write(t, name, rules("p"))
		polls(w, 3)
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		write(t, name, rules("q"))
		if err := os.Chtimes(name, info.ModTime(), info.ModTime()); err != nil {
			t.Fatal(err)
		}
	})
	step("gone", 1, func() {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	})
	step("back", 1, func() { write(t, name, rules("f")) })
	// An editor that takes the file away for a moment, and a file half written.
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	first := w.poll()
	write(t, name, "limits:\n")
	second := w.poll()
	write(t, name, rules("f"))
	if first || second || polls(w, 3) != 0 {
		t.Error("a moment in between counts as a change")
	}
}

// TestWatchSymlinks: Kubernetes swaps the middle of a chain of links.
func TestWatchSymlinks(t *testing.T) {
	folder := t.TempDir()
	version := func(n, content string) {
		t.Helper()
		if err := os.Mkdir(filepath.Join(folder, n), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(folder, n, "policy.yaml"), content)
		age(t, filepath.Join(folder, n, "policy.yaml"))
		link := filepath.Join(folder, "..data_tmp")
		if err := os.Symlink(n, link); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(link, filepath.Join(folder, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	version("..1", rules("a"))
	name := filepath.Join(folder, "policy.yaml")
	if err := os.Symlink(filepath.Join("..data", "policy.yaml"), name); err != nil {
		t.Fatal(err)
	}
	w := newWatcher(name)
	polls(w, 2)
	version("..2", rules("b"))
	if got := polls(w, 4); got != 1 {
		t.Errorf("%d changes, want 1", got)
	}
	version("..3", rules("b"))
	if got := polls(w, 4); got != 0 {
		t.Errorf("the same content under another link: %d changes", got)
	}
}

// TestWatchCompanions: files that the policy names and Load reads are watched
// too, also those named by a change.
func TestWatchCompanions(t *testing.T) {
	folder := t.TempDir()
	name, keys := filepath.Join(folder, "policy.yaml"), filepath.Join(folder, "keys.txt")
	write(t, keys, "k-1 tenant=a\n")
	write(t, name, rules("a"))
	w := newWatcher(name)
	write(t, keys, "k-2 tenant=a\n")
	if got := polls(w, 3); got != 0 {
		t.Errorf("a file that is not named: %d changes", got)
	}
	write(t, name, "api_keys: {header: K, file: keys.txt}\n")
	if got := polls(w, 3); got != 1 {
		t.Errorf("%d changes", got)
	}
	write(t, keys, "k-3 tenant=a\n")
	if got := polls(w, 3); got != 1 {
		t.Errorf("a named file: %d changes", got)
	}
	write(t, keys, "k-3 tenant= nonsense\n") // the policy cannot be loaded now
	if got := polls(w, 3); got != 1 {
		t.Errorf("a broken companion: %d changes", got)
	}
	write(t, keys, "k-4 tenant=a\n")
	if got := polls(w, 3); got != 1 {
		t.Errorf("a mended companion: %d changes", got)
	}
}

func TestWatchRuns(t *testing.T) {
	name := filepath.Join(t.TempDir(), "policy.yaml")
	if _, err := Watch(name, func() {}); err == nil {
		t.Error("a file that is not there is watched")
	}
	write(t, name, rules("a"))
	synctest.Test(t, func(t *testing.T) {
		var changes atomic.Int32
		stop, err := Watch(name, func() { changes.Add(1) })
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		write(t, name, rules("b"))
		for changes.Load() == 0 && time.Since(began) < time.Minute {
			<-time.After(pollEvery)
			synctest.Wait()
		}
		if changes.Load() != 1 || time.Since(began) > 3*pollEvery {
			t.Errorf("%d changes after %v", changes.Load(), time.Since(began))
		}
		stop()
		stop()
		write(t, name, rules("c"))
		<-time.After(time.Minute)
		if changes.Load() != 1 {
			t.Error("a change is reported after stop")
		}
	})
}
