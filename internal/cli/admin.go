package cli

import (
	"cmp"
	"os"

	"github.com/spf13/pflag"

	"github.com/weirhq/weir/internal/daemon"
	"github.com/weirhq/weir/policy/policyfile"
)

// adminFlags are the admin door's. Its token is never a flag, which everybody on
// the machine could read.
type adminFlags struct{ address string }

const adminToken = "WEIR_ADMIN_TOKEN"

func (a *adminFlags) flags(f *pflag.FlagSet) {
	f.StringVar(&a.address, "admin", "127.0.0.1:8082", "where the admin door listens: HOST:PORT, unix:PATH or off")
}

// listen returns where the admin door listens: what the file says, if there is
// one, with the flag and the environment on top.
func (a *adminFlags) listen(f *pflag.FlagSet, file *policyfile.File) (daemon.Listen, error) {
	d := daemon.Listen{Address: a.address}
	tokenFile := ""
	if file != nil {
		l := &file.Listen.Admin
		if !f.Changed("admin") {
			d.Address = l.Address
		}
		d.Auth, d.ProxyProtocol = l.Auth, l.ProxyProtocol
		d.TLS = daemon.Certificates{Cert: l.TLS.CertFile, Key: l.TLS.KeyFile, ClientCA: l.TLS.ClientCAFile}
		tokenFile = cmp.Or(file.Admin.TokenFile, l.TokenFile)
	}
	if d.Token = os.Getenv(adminToken); d.Token == "" && tokenFile != "" {
		token, err := daemon.ReadSecret(tokenFile)
		if err != nil {
			return d, misuse("", "the token file of the admin door: %w", err)
		}
		d.Token = token
	}
	return d, nil
}
