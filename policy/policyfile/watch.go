package policyfile

import (
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"slices"
	"sync"
	"time"
)

// The watcher asks for the content of the files every quarter of a second.
// Notifications of the kernel were rejected: they come for the directory entry
// and not for what a chain of symlinks ends in (Kubernetes swaps the middle of
// one), several times for one save, and not at all on some network and overlay
// file systems; a poll of a file that has not changed is one stat.
//
// A change counts once two polls in a row have seen the same content, so that a
// file that is being written is not read by half, and files that are swapped
// together are read together.

// pollEvery is how often files are looked at. A change is seen within twice it.
const pollEvery = 250 * time.Millisecond

// Watch calls changed after the policy file, or a file that it names and Load
// reads, has got new content, on a goroutine of its own and never concurrently.
// Whether the new content is any good is not its business. stop ends the
// watching and waits for a call of changed to return.
func Watch(name string, changed func()) (stop func(), err error) {
	w := newWatcher(name)
	if state := w.files[name]; state.missing {
		return nil, state.err
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(pollEvery)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				if w.poll() {
					changed()
				}
			}
		}
	}()
	return sync.OnceFunc(func() { close(done); <-ended }), nil
}

type print [sha256.Size]byte

// watcher is the state of watching, apart from its goroutine.
type watcher struct {
	name    string
	names   []string
	files   map[string]*watched
	inForce print
	pending print
}

// watched is what is known of one file.
type watched struct {
	info    os.FileInfo
	settled bool // the content cannot have changed under the same info
	sum     print
	missing bool
	err     error
}

func newWatcher(name string) *watcher {
	w := &watcher{name: name, files: map[string]*watched{}}
	w.follow()
	w.inForce = w.print()
	return w
}

// follow finds out which files make the policy. Those of a file that cannot be
// loaded are not known; then all that were known before are kept.
func (w *watcher) follow() {
	if f, err := Load(w.name); err == nil {
		w.names = f.read
	}
	if !slices.Contains(w.names, w.name) {
		w.names = append(w.names, w.name)
	}
}

// poll reports whether there is new content that has stayed for one poll.
func (w *watcher) poll() bool {
	seen := w.print()
	switch seen {
	case w.inForce:
		w.pending = seen
		return false
	case w.pending:
		w.follow()
		w.inForce = w.print()
		w.pending = w.inForce
		return true
	}
	w.pending = seen
	return false
}

// print is the content of all files, as a hash.
func (w *watcher) print() print {
	h := sha256.New()
	for _, name := range w.names {
		state := w.files[name]
		if state == nil {
			state = &watched{}
			w.files[name] = state
		}
		state.look(name)
		h.Write(state.sum[:])
	}
	return print(h.Sum(nil))
}

// look brings the state of a file up to date.
func (s *watched) look(name string) {
	info, err := os.Stat(name)
	if err != nil {
		*s = watched{missing: true, err: err}
		return
	}
	if s.settled && os.SameFile(s.info, info) && s.info.Size() == info.Size() && s.info.ModTime().Equal(info.ModTime()) {
		return
	}
	// File systems stamp with a coarse clock, so a file that changed a moment
	// ago may change again and keep its stamp.
	settled := time.Since(info.ModTime()) > 2*time.Second
	sum, err := hashFile(name)
	if err != nil {
		*s = watched{missing: true, err: err}
		return
	}
	*s = watched{info: info, settled: settled, sum: sum}
}

func hashFile(name string) (sum print, err error) {
	f, err := os.Open(name)
	if err != nil {
		return sum, err
	}
	h := sha256.New()
	_, err = io.Copy(h, f)
	h.Sum(sum[:0])
	return sum, errors.Join(err, f.Close())
}
