package cli

import (
	"github.com/spf13/pflag"

	"github.com/weirhq/weir/internal/daemon"
	"github.com/weirhq/weir/policy/policyfile"
)

// respFlags are the resp door's.
type respFlags struct{ address string }

func (r *respFlags) flags(f *pflag.FlagSet) {
	f.StringVar(&r.address, "resp", daemon.Off, "where the resp door listens (Redis clients: CL.THROTTLE, WEIR.TAKE): HOST:PORT, unix:PATH or off")
}

// config adds the door to c, if the flags or the policy file ask for it.
func (r *respFlags) config(f *pflag.FlagSet, l *listenFlags, c *daemon.Config) error {
	var file *policyfile.Listener
	if c.File != nil {
		file = &c.File.Listen.RESP
	}
	door := *l
	door.address = r.address
	listen, err := door.listen(f, "resp", file)
	if err != nil {
		return err
	}
	if listen.Address != "" && listen.Address != daemon.Off {
		c.Doors = append(c.Doors, daemon.RESP(listen, readBuild().Version))
	}
	return nil
}
