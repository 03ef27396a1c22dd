package cli

import (
	"github.com/spf13/pflag"

	"github.com/weirhq/weir/internal/daemon"
	"github.com/weirhq/weir/policy/policyfile"
)

// listenFlags are one door's.
type listenFlags struct {
	address, auth, tokenFile string
	cert, key, clientCA      string
}

func (l *listenFlags) flags(f *pflag.FlagSet, door, address string) {
	f.StringVar(&l.address, door, address, "where the "+door+" door listens: HOST:PORT, unix:PATH or off")
}

func (l *listenFlags) access(f *pflag.FlagSet) {
	l.certificates(f)
	l.clients(f)
}

func (l *listenFlags) clients(f *pflag.FlagSet) {
	f.StringVar(&l.auth, "auth", "", "who may use a door off loopback: token, mtls or none")
	f.StringVar(&l.tokenFile, "token-file", "", "file with the token of --auth token")
	f.StringVar(&l.clientCA, "tls-client-ca", "", "CA of the clients of --auth mtls")
}

func (l *listenFlags) certificates(f *pflag.FlagSet) {
	f.StringVar(&l.cert, "tls-cert", "", "certificate to serve TLS with")
	f.StringVar(&l.key, "tls-key", "", "its key")
}

// listen returns where the door listens: what the file says, with the flags that
// were given on top.
func (l *listenFlags) listen(f *pflag.FlagSet, door string, file *policyfile.Listener) (daemon.Listen, error) {
	tokenFile := l.tokenFile
	d := daemon.Listen{Address: l.address, Auth: l.auth, TLS: daemon.Certificates{Cert: l.cert, Key: l.key, ClientCA: l.clientCA}}
	if file != nil {
		pick := func(flag string, to *string, value string) {
			if !f.Changed(flag) {
				*to = value
			}
		}
		pick(door, &d.Address, file.Address)
		pick("auth", &d.Auth, file.Auth)
		pick("token-file", &tokenFile, file.TokenFile)
		pick("tls-cert", &d.TLS.Cert, file.TLS.CertFile)
		pick("tls-key", &d.TLS.Key, file.TLS.KeyFile)
		pick("tls-client-ca", &d.TLS.ClientCA, file.TLS.ClientCAFile)
		d.ProxyProtocol = file.ProxyProtocol
	}
	if tokenFile != "" {
		token, err := daemon.ReadSecret(tokenFile)
		if err != nil {
			return d, misuse("", "the token file of the %s door: %w", door, err)
		}
		d.Token = token
	}
	return d, nil
}
