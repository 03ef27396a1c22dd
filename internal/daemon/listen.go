package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/weirhq/weir/identity"
)

// Off is the address of a door that is not to be opened.
const Off = "off"

// Listen says where a door listens and who may talk to it.
type Listen struct {
	Address string // host:port, unix:PATH, or off
	Auth    string // token, mtls or none; "" is none on loopback and on a unix socket, and an error elsewhere
	Token   string // for auth token
	TLS     Certificates

	// ProxyProtocol asks trusted peers for a PROXY header and refuses it from
	// others.
	ProxyProtocol bool

	// NeedsToken says that off loopback the door asks for its token whatever else
	// it asks for, and is not opened without one.
	NeedsToken bool

	// OrAny takes any free port where that of Address is taken.
	OrAny bool

	// Public says that the door is made for strangers, as a proxy's listener
	// is: it asks nobody for anything, wherever it listens.
	Public bool
}

// Certificates names PEM files. They are read when the door opens and again on
// every reload.
type Certificates struct {
	Cert, Key string // both or none
	ClientCA  string // signs the clients of auth mtls
}

// ListenError is a door that cannot be opened as it is configured.
type ListenError struct {
	Door, Problem, Hint string
	Err                 error
}

// Error returns the door and the problem.
func (e *ListenError) Error() string {
	s := "the " + e.Door + " door: " + e.Problem
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause, or nil.
func (e *ListenError) Unwrap() error { return e.Err }

// shortToken is how many characters a token has at least that cannot be guessed by
// trying.
const shortToken = 16

// unixPath returns PATH of unix:PATH.
func (l *Listen) unixPath() (string, bool) { return strings.CutPrefix(l.Address, "unix:") }

// check returns why the door may not be opened so, before anything is opened.
func (l *Listen) check(door string) error {
	wrong := func(problem, hint string) error { return &ListenError{Door: door, Problem: problem, Hint: hint} }
	local := l.Public
	if path, ok := l.unixPath(); ok {
		if path == "" {
			return wrong("unix: needs a path", "write unix:/run/weir.sock")
		}
		local = true
	} else if !local {
		loopback, err := isLoopback(l.Address)
		if err != nil {
			return wrong(fmt.Sprintf("%q is no address", l.Address), "write HOST:PORT, unix:PATH or off")
		}
		local = loopback
	}
	if l.NeedsToken && !local && l.Token == "" {
		return wrong(l.Address+" is off loopback and the door has no token", "set WEIR_ADMIN_TOKEN, or admin.token_file in the policy file")
	}
	if l.NeedsToken && !local && len(l.Token) < shortToken {
		return wrong(fmt.Sprintf("%s is off loopback and the token has fewer than %d characters", l.Address, shortToken), "make one such as: openssl rand -hex 32")
	}
	switch l.Auth {
	case "":
		if !local && !l.NeedsToken {
			return wrong(fmt.Sprintf("%s is off loopback and auth is not stated", l.Address), "state auth: token, mtls or none")
		}
	case "none":
	case "token":
		if l.Token == "" {
			return wrong("auth token needs a token", "name a token file, or set its environment variable")
		}
	case "mtls":
		if l.TLS.Cert == "" || l.TLS.ClientCA == "" {
			return wrong("auth mtls needs a certificate, its key and the CA of the clients", "")
		}
	default:
		return wrong(fmt.Sprintf("auth %q is unknown", l.Auth), "auth is token, mtls or none")
	}
	if (l.TLS.Cert == "") != (l.TLS.Key == "") {
		return wrong("a TLS certificate and its key go together", "")
	}
	return nil
}

// isLoopback reports whether every address that hostport listens on is one that
// only this machine reaches.
func isLoopback(hostport string) (bool, error) {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		return false, err
	}
	return identity.IsLoopback(host), nil
}

// open opens the listener, which holds so many connections at most; full is told
// when it has them, or nil. TLS is the server's to add. trusted says which peers
// are.
func (l *Listen) open(door string, most int, full func(), trusted func(net.Addr) bool) (*doorListener, error) {
	network, address := "tcp", l.Address
	path, unix := l.unixPath()
	if unix {
		network, address = "unix", path
		if err := removeStale(path); err != nil {
			return nil, &ListenError{Door: door, Problem: "cannot listen", Err: err}
		}
	}
	listener, err := net.Listen(network, address)
	if host, _, fault := net.SplitHostPort(address); err != nil && l.OrAny && !unix && fault == nil {
		listener, err = net.Listen(network, net.JoinHostPort(host, "0"))
	}
	if err != nil {
		return nil, &ListenError{Door: door, Problem: "cannot listen", Err: err, Hint: "is another weir running? choose another address or off"}
	}
	if unix {
		if err := os.Chmod(path, 0o660); err != nil {
			return nil, errors.Join(&ListenError{Door: door, Problem: "cannot listen", Err: err}, listener.Close())
		}
	}
	bottom := newBacklog(listener.(deadlined)) // TCP and unix listeners are
	listener = &capped{Listener: bottom, room: make(chan struct{}, most), full: full}
	if l.ProxyProtocol {
		listener = newAnnouncing(listener, trusted, announceWithin)
	}
	return &doorListener{listener, bottom}, nil
}

// removeStale removes the socket that a process left behind when it died. A
// socket that somebody answers on stays.
func removeStale(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != os.ModeSocket:
		return fmt.Errorf("%s is there and is no socket", path)
	}
	if c, err := net.Dial("unix", path); err == nil {
		return errors.Join(fmt.Errorf("somebody answers on %s", path), c.Close())
	}
	return os.Remove(path)
}

// tls returns the configuration to serve with, or nil for plain text.
func (l *Listen) tls(door string) (*tls.Config, error) {
	if l.TLS.Cert == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(l.TLS.Cert, l.TLS.Key)
	if err != nil {
		return nil, &ListenError{Door: door, Problem: "cannot use the certificate", Err: err}
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}}
	if l.Auth == "mtls" {
		pem, err := os.ReadFile(l.TLS.ClientCA)
		if err != nil {
			return nil, &ListenError{Door: door, Problem: "cannot read the CA of the clients", Err: err}
		}
		c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		if !c.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, &ListenError{Door: door, Problem: l.TLS.ClientCA + " holds no certificate"}
		}
	}
	return c, nil
}
