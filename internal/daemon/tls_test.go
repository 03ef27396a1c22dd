package daemon

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/weirhq/weir/policy/policyfile"
)

// authority signs certificates for a test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t}
	a.cert, a.key = a.make(1, true)
	return a
}

func (a *authority) make(serial int64, ca bool) (*x509.Certificate, *ecdsa.PrivateKey) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "weir test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: ca, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	parent, signer := a.cert, a.key
	if ca {
		template.KeyUsage = x509.KeyUsageCertSign
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

// write writes a signed certificate and its key.
func (a *authority) write(serial int64, certFile, keyFile string) {
	cert, key := a.make(serial, false)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	writePEM(a.t, certFile, "CERTIFICATE", cert.Raw)
	writePEM(a.t, keyFile, "PRIVATE KEY", der)
}

func writePEM(t *testing.T, file, kind string, der []byte) {
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestMutualTLS: without a client certificate nobody gets in, nor over TLS that is
// no longer safe; HTTP/2 is spoken,
// and certificates are read again on reload.
func TestMutualTLS(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	a := newAuthority(t)
	writePEM(t, file("ca.pem"), "CERTIFICATE", a.cert.Raw)
	a.write(2, file("cert.pem"), file("key.pem"))
	a.write(3, file("client.pem"), file("client-key.pem"))
	if err := os.WriteFile(file("weir.yaml"), []byte("limits: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	policy, err := policyfile.Load(file("weir.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	d := begin(t, Config{File: policy, Watch: true, Doors: []Door{HTTP(Listen{
		Address: "127.0.0.1:0", Auth: "mtls",
		TLS: Certificates{Cert: file("cert.pem"), Key: file("key.pem"), ClientCA: file("ca.pem")},
	})}})
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	pair, err := tls.LoadX509KeyPair(file("client.pem"), file("client-key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	client := func(pairs ...tls.Certificate) *http.Client {
		transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: pairs}}
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport}
	}
	if status, err := take(client(), "https://"+d.address, ""); err == nil {
		t.Errorf("without a certificate: %d", status)
	}
	if status, err := take(client(pair), "https://"+d.address, ""); status != 200 || err != nil {
		t.Errorf("with one: %d %v", status, err)
	}
	old := &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
	if conn, err := tls.Dial("tcp", d.address, old); err == nil {
		t.Errorf("over TLS 1.1 somebody gets in: %v", conn.Close())
	}
	if status, _ := take(http.DefaultClient, "http://"+d.address, ""); status == 200 {
		t.Error("in plain text it answers")
	}
	served := func() (serial int64, protocol string) {
		w, err := client(pair).Get("https://" + d.address + "/healthz")
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Body.Close(); err != nil {
			t.Fatal(err)
		}
		return w.TLS.PeerCertificates[0].SerialNumber.Int64(), w.Proto
	}
	if serial, protocol := served(); serial != 2 || protocol != "HTTP/2.0" {
		t.Errorf("certificate %d over %s", serial, protocol)
	}
	a.write(4, file("cert.pem"), file("key.pem"))
	d.reload <- syscall.SIGHUP
	until(t, func() string {
		if serial, _ := served(); serial != 4 {
			return fmt.Sprintf("certificate %d", serial)
		}
		return ""
	})
}
