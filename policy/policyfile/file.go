package policyfile

import (
	"time"

	"github.com/weirhq/weir/identity"
	"github.com/weirhq/weir/policy"
)

// File is a policy file that was read and checked. Fields that the file leaves
// out hold their defaults. It must not be changed.
type File struct {
	Name string // as given to Load or Parse; errors begin with it

	Store         Store
	KeyPrefix     string // separates deployments that share a Redis
	KeySecretFile string // "" for none; a path, as every File field, relative to the policy file's folder
	Listen        Listen
	Admin         Admin

	ClientIP identity.ClientIP
	APIKeys  APIKeys
	Tenants  map[string]identity.TenantRecord
	User     User

	Headers     Headers
	RetryJitter Percent // of the retry time
	Denied      Denied

	DecisionTimeout time.Duration
	MaxOvershoot    Percent // of a limit; 0 for no leases
	Events          Events
	Regions         Regions

	// Policy is exempt, ambiguous_path and limits.
	Policy *policy.Policy

	// Version tells files that differ apart, those they are made of included: the
	// beginning of a SHA-256, in hexadecimal.
	Version string

	Tests []Test

	source policy.Options
	places map[string]place
	read   []string // the files this was made of
}

// Store says where balances live.
type Store struct {
	URL          string // memory, or redis: rediss: redis+sentinel: redis+cluster: with a host; may hold a password
	Username     string
	PasswordFile string
	TLS          ClientTLS
	Connections  int // to each node; 0 leaves it to the store
}

// String returns the kind of the store and never its password.
func (s Store) String() string { return scheme(s.URL) }

// ClientTLS names the files for talking to a server over TLS.
type ClientTLS struct{ CAFile, CertFile, KeyFile string }

// Listen holds the doors.
type Listen struct{ HTTP, Admin, GRPC, RESP Listener }

// Listener is where a door listens. Auth off loopback is never empty but for
// the admin door, which insists on a token by itself.
type Listener struct {
	Address       string // host:port, unix:PATH, or "" for off
	Auth          string // token, mtls, none, or "" on loopback
	TokenFile     string
	TLS           ServerTLS
	ProxyProtocol bool // trusted peers must open with a PROXY header, others must not
}

// ServerTLS names the files for serving TLS.
type ServerTLS struct{ CertFile, KeyFile, ClientCAFile string }

// Admin configures the admin door.
type Admin struct {
	TokenFile   string
	OpenMetrics bool // /metrics needs no token
}

// APIKeys says where API keys are presented and which there are.
type APIKeys struct {
	Header string
	Keys   map[string]identity.KeyRecord // those of File included; a key, or sha256:HEX
	File   string
	Redis  bool // look up keys and tenants in the store
}

// User says who may name the user.
type User struct {
	Header string // believed from trusted peers
	JWT    JWT
}

// JWT configures the check of tokens. It is off without KeyFiles.
type JWT struct {
	KeyFiles         []string // public keys as PEM, or a secret each
	Header           string   // that carries the token; of Authorization the Bearer token
	Issuer, Audience string   // must be the token's, if set
	Claim            string   // that names the user
	Leeway           time.Duration
}

// Headers says which response header families are sent.
type Headers struct {
	Triple, Draft11, XRateLimit bool
	XReset                      string // epoch or delta
}

// Denied replaces the body of refusals. The zero value leaves it as it is.
type Denied struct {
	Status      int
	ContentType string
	BodyFile    string
	Body        []byte // of BodyFile
}

// Events configures where decisions are written as events: to a stream or to
// files, or, with neither, nowhere.
type Events struct {
	RedisStream string        // of the store
	MaxLen      int           // entries kept, about; 0 leaves it to the stream
	MaxAge      time.Duration // or how long they are kept; 0 for MaxLen

	File       string // segments of it are numbered
	SegmentMiB int    // size of a segment; 0 leaves it to the writer
	Segments   int    // kept; 0 leaves it to the writer

	Admitted Percent // how many of the admitted are written; denied ones all are
}

// Percent is a share in hundredths of a percent, so that it stays whole.
type Percent int

// Of returns the share of n, rounded down. n is at most 9·10^14.
func (p Percent) Of(n int64) int64 { return n * int64(p) / 10_000 }
