package redisstore_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/internal/redisconn"
	"github.com/weirhq/weir/internal/testredis"
	"github.com/weirhq/weir/redisstore"
)

// certify writes a certificate for 127.0.0.1 that is good until then, signed by
// key itself.
func certify(t *testing.T, key *ecdsa.PrivateKey, file string, until time.Time) []byte {
	t.Helper()
	about := &x509.Certificate{
		SerialNumber: big.NewInt(until.Unix()), NotBefore: until.Add(-48 * time.Hour), NotAfter: until,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return text
}

// A certificate that has expired is told as such, nothing is taken for unknown,
// and one that is good again is found without a restart.
func TestAnExpiredCertificateIsAKindOfItsOwn(t *testing.T) {
	dir := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	keyFile, certFile := filepath.Join(dir, "key.pem"), filepath.Join(dir, "cert.pem")
	if err := os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	good := certify(t, key, filepath.Join(dir, "good.pem"), time.Now().Add(24*time.Hour))
	expired := certify(t, key, certFile, time.Now().Add(-time.Hour))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(good)
	roots.AppendCertsFromPEM(expired)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().String()
	_, port, _ := net.SplitHostPort(addr)
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	server := testredis.Start(t, "tls-port "+port, "tls-cert-file "+certFile, "tls-key-file "+keyFile, "tls-ca-cert-file "+certFile, "tls-auth-clients no")
	store, err := redisstore.Open("rediss://"+addr, redisstore.Options{
		Timeout: 250 * time.Millisecond, Conn: redisconn.Settings{TLS: &tls.Config{RootCAs: roots, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{house: &house{Limiter: limiterOn(t, store), store: store, t: t}, server: server}
	until(t, "it is told", func() bool {
		b := s.ask(weir.Open)
		kind, unreachable := kindOf(b)
		return kind == "tls" && unreachable && b.Reason == weir.FailedOpen
	})
	if n := store.Unknown(); n != 0 {
		t.Errorf("%d are unknown: nothing was sent", n)
	}
	if err := os.WriteFile(certFile, good, 0o600); err != nil {
		t.Fatal(err)
	}
	s.must("CONFIG", "SET", "tls-cert-file", certFile)
	until(t, "redis decides under the new one", func() bool { return s.ask(weir.Local).Source == "redis" })

	// And while it is connected: the next connection finds it expired.
	certify(t, key, certFile, time.Now().Add(-time.Hour))
	s.must("CONFIG", "SET", "tls-cert-file", certFile)
	s.must("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	until(t, "it is told again", func() bool { kind, _ := kindOf(s.ask(weir.Local)); return kind == "tls" })
}
