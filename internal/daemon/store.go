package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/internal/redisconn"
	"github.com/weirhq/weir/policy/policyfile"
	"github.com/weirhq/weir/redisstore"
	"github.com/weirhq/weir/regions"
)

// StoreConfig says where balances live.
type StoreConfig struct {
	URL     string // "" and memory for this process; else a URL that redisstore.Open takes
	Prefix  string // separates deployments that share a Redis
	Secret  []byte // HMAC key for stored keys, or nil
	Timeout time.Duration
	Conn    redisconn.Settings
	// Overshoot is max_overshoot in millionths; 0 has no leases.
	Overshoot int64
	// Notify is told when a shared store goes away and when it is back, or nil.
	Notify func(redisstore.Health)
	// OnFlight is told of every call of a shared store, or nil.
	OnFlight func(redisstore.Flight)
	// Regions are those that share limits with this one, and Peers how to get to
	// their stores; without there are none.
	Regions policyfile.Regions
	Peers   map[string]regions.Peer
	// Drills allows whoever has the admin door to make the store fail on purpose.
	Drills  bool
	through func(redisstore.Scripter) redisstore.Scripter
}

const memory = "memory"

// shared reports whether other processes may use the same balances.
func (c *StoreConfig) shared() bool { return c.URL != "" && c.URL != memory }

// OpenStore opens a store on its own clock: nothing here lets a caller choose
// the time.
func OpenStore(c StoreConfig) (weir.Store, error) {
	if !c.shared() {
		return weir.NewMemory(weir.MemoryOptions{}), nil
	}
	store, err := redisstore.Open(c.URL, redisstore.Options{
		Prefix: c.Prefix, Secret: c.Secret, Timeout: c.Timeout, Conn: c.Conn, Notify: c.Notify, OnFlight: c.OnFlight, Through: c.through,
	})
	if err != nil {
		return nil, &StoreError{err}
	}
	return store, nil
}

// StoreError is a store that cannot be used as it is configured. One that merely
// does not answer is none.
type StoreError struct{ Err error }

// Error returns the cause's text.
func (e *StoreError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *StoreError) Unwrap() error { return e.Err }

// StoreOf returns what a policy file says of the store.
func StoreOf(f *policyfile.File) (StoreConfig, error) {
	c := StoreConfig{URL: f.Store.URL, Prefix: f.KeyPrefix, Timeout: f.DecisionTimeout}
	c.Regions = f.Regions
	c.Overshoot = f.MaxOvershoot.Of(1_000_000)
	if f.KeySecretFile != "" {
		secret, err := ReadSecret(f.KeySecretFile)
		if err != nil {
			return c, fmt.Errorf("key_secret_file: %w", err)
		}
		c.Secret = []byte(secret)
	}
	var err error
	if c.Conn, err = connTo(f.Store, "store"); err != nil {
		return c, err
	}
	c.Peers = make(map[string]regions.Peer, len(f.Regions.Peers))
	for name, peer := range f.Regions.Peers {
		conn, err := connTo(peer, "regions.peers."+name)
		if err != nil {
			return c, err
		}
		c.Peers[name] = regions.Peer{URL: peer.URL, Conn: conn}
	}
	return c, nil
}

// connTo reads what a store's URL cannot carry; field is the store's in the file.
func connTo(s policyfile.Store, field string) (redisconn.Settings, error) {
	c := redisconn.Settings{Username: s.Username, Connections: s.Connections}
	if s.PasswordFile != "" {
		password, err := ReadSecret(s.PasswordFile)
		if err != nil {
			return c, fmt.Errorf("%s.password_file: %w", field, err)
		}
		c.Password = password
	}
	config, err := clientTLS(s.TLS)
	if err != nil {
		return c, fmt.Errorf("%s.tls: %w", field, err)
	}
	c.TLS = config
	return c, nil
}

// clientTLS returns how to talk TLS to a server, or nil for its URL's default.
func clientTLS(c policyfile.ClientTLS) (*tls.Config, error) {
	if c == (policyfile.ClientTLS{}) {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate", c.CAFile)
		}
	}
	if c.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// ReadSecret returns a secret file's text without the line end.
func ReadSecret(file string) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	s := strings.TrimRight(string(b), "\r\n")
	if s == "" {
		return "", fmt.Errorf("%s is empty", file)
	}
	return s, nil
}
