package daemon

import (
	"context"
	"reflect"
	"time"

	"github.com/weirhq/weir/policy/policyfile"
)

// watch begins to look for changes of the policy file, and reads the file again:
// it may have changed between being read and being watched.
func (c *Config) watch() (changed <-chan struct{}, stop func(), err error) {
	if !c.Watch {
		return nil, func() {}, nil
	}
	due := make(chan struct{}, 1)
	stop, err = policyfile.Watch(c.File.Name, func() {
		select {
		case due <- struct{}{}:
		default: // one reload is due already
		}
	})
	if err != nil {
		return nil, nil, err
	}
	f, err := policyfile.Load(c.File.Name)
	if err != nil {
		stop()
		return nil, nil, err
	}
	c.File = f
	return due, stop, nil
}

// reloads reads the policy file again when it is asked to or the file changes,
// until ctx ends. A file that is wrong changes nothing.
func (c *Config) reloads(ctx context.Context, core *Core, servers []Server, changed <-chan struct{}) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-c.Reload:
		}
		err := c.reload(core, servers)
		if c.Reloaded != nil {
			c.Reloaded(err)
		}
	}
}

// reload reads the file again and puts it in force, all or nothing.
func (c *Config) reload(core *Core, servers []Server) error {
	f, err := policyfile.Load(c.File.Name)
	var r *rules
	if err == nil {
		r, err = newRules(f, core.callers, c.Log)
	}
	if err != nil {
		fault := "the policy file was changed and is wrong; the one before it is in force"
		core.policyFault.Store(&fault)
		core.watchers.rejected()
		c.Log.Error("the policy file is wrong; the one before it stays in force", "error", err.Error())
		return err
	}
	core.enforce(r)
	core.policyFault.Store(nil)
	core.watchers.enforced(core, f)
	for _, setting := range fixed(c.File, f) {
		c.Log.Warn("a changed setting takes effect at the next start", "file", f.Name, "setting", setting)
	}
	for i, s := range servers {
		if err := s.Reload(); err != nil {
			c.Log.Error("the certificates stay as they were", "door", c.Doors[i].Name, "error", err.Error())
		}
	}
	c.Log.Info("the policy was read again and is in force", "file", f.Name)
	return nil
}

// fixed names the settings in which two files differ and that a running daemon
// does not change.
func fixed(was, is *policyfile.File) (names []string) {
	for _, s := range []struct {
		name    string
		was, is any
	}{
		{"store", was.Store, is.Store},
		{"key_prefix", was.KeyPrefix, is.KeyPrefix},
		{"key_secret_file", was.KeySecretFile, is.KeySecretFile},
		{"decision_timeout", was.DecisionTimeout, is.DecisionTimeout},
		{"max_overshoot", was.MaxOvershoot, is.MaxOvershoot},
		{"listen", was.Listen, is.Listen},
		{"regions", was.Regions, is.Regions},
		{"events", was.Events, is.Events},
		{"admin", was.Admin, is.Admin},
	} {
		if !reflect.DeepEqual(s.was, s.is) {
			names = append(names, s.name)
		}
	}
	return names
}

// The defaults of a daemon's end: long enough for a balancer that asks readyz
// every half second, and for any request but a stream.
const (
	DefaultNotice = time.Second
	DefaultGrace  = 30 * time.Second
)
