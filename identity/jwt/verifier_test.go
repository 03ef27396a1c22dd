package jwt

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	jwtlib "github.com/golang-jwt/jwt/v5"

	"github.com/weirhq/weir/identity"
)

var now = time.Unix(1_700_000_000, 0)

func clock() time.Time { return now }

type claims = jwtlib.MapClaims

var good = claims{"sub": "alice", "exp": now.Unix() + 60, "iss": "issuer", "aud": "weir"}

func with(changes claims) claims {
	c := maps.Clone(good)
	for k, v := range changes {
		if c[k] = v; v == nil {
			delete(c, k)
		}
	}
	return c
}

// signer is a key pair with the file that verifies it.
type signer struct {
	method jwtlib.SigningMethod
	key    any
	file   []byte
}

func (s signer) sign(t *testing.T, c claims) string {
	t.Helper()
	token, err := jwtlib.NewWithClaims(s.method, c).SignedString(s.key)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func public(t *testing.T, key crypto.Signer) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func signers(t *testing.T) map[string]signer {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	r, err := rsa.GenerateKey(rand.Reader, 2048)
	must(err)
	e, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	e3, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	must(err)
	_, d, err := ed25519.GenerateKey(rand.Reader)
	must(err)
	secret := []byte(strings.Repeat("s", 32))
	return map[string]signer{
		"HS256": {jwtlib.SigningMethodHS256, secret, append(secret, '\n')},
		"RS256": {jwtlib.SigningMethodRS256, r, public(t, r)},
		"ES256": {jwtlib.SigningMethodES256, e, public(t, e)},
		"ES384": {jwtlib.SigningMethodES384, e3, public(t, e3)},
		"EdDSA": {jwtlib.SigningMethodEdDSA, d, public(t, d)},
	}
}

func write(t *testing.T, content []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func verifier(t *testing.T, o Options) *Verifier {
	t.Helper()
	o.Now = clock
	v, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestEveryAlgorithm(t *testing.T) {
	all := signers(t)
	for name, s := range all {
		v := verifier(t, Options{KeyFiles: []string{write(t, s.file)}, Issuer: "issuer", Audience: "weir"})
		if user, err := v.Verify(s.sign(t, good)); user != "alice" || err != nil {
			t.Errorf("%s: %q, %v", name, user, err)
		}
		for other, o := range all {
			if other == name {
				continue
			}
			if user, err := v.Verify(o.sign(t, good)); !errors.Is(err, ErrSignature) || user != "" {
				t.Errorf("%s accepts %s: %q, %v", name, other, user, err)
			}
		}
	}
}

// Of several keys any may verify, which is how keys are rotated.
func TestSeveralKeys(t *testing.T) {
	all := signers(t)
	fresh := signers(t)["ES256"]
	files := []string{write(t, append(all["ES256"].file, fresh.file...)), write(t, all["HS256"].file)}
	v := verifier(t, Options{KeyFiles: files})
	for name, s := range map[string]signer{"first": all["ES256"], "second": fresh, "secret": all["HS256"]} {
		if user, err := v.Verify(s.sign(t, good)); user != "alice" || err != nil {
			t.Errorf("%s: %q, %v", name, user, err)
		}
	}
	if _, err := v.Verify(all["RS256"].sign(t, good)); !errors.Is(err, ErrSignature) {
		t.Errorf("a key that is not here: %v", err)
	}
}

func TestClaims(t *testing.T) {
	s := signers(t)["HS256"]
	v := verifier(t, Options{KeyFiles: []string{write(t, s.file)}, Issuer: "issuer", Audience: "weir"})
	for name, tt := range map[string]struct {
		claims claims
		want   error
	}{
		"good":                  {good, nil},
		"last second":           {with(claims{"exp": now.Unix() + 1}), nil},
		"expired":               {with(claims{"exp": now.Unix()}), ErrExpired},
		"no end":                {with(claims{"exp": nil}), ErrClaims},
		"end not a time":        {with(claims{"exp": "soon"}), ErrClaims},
		"valid from now":        {with(claims{"nbf": now.Unix()}), nil},
		"not yet":               {with(claims{"nbf": now.Unix() + 1}), ErrNotYetValid},
		"other issuer":          {with(claims{"iss": "else"}), ErrIssuer},
		"no issuer":             {with(claims{"iss": nil}), ErrClaims},
		"one of its audiences":  {with(claims{"aud": []string{"x", "weir"}}), nil},
		"other audience":        {with(claims{"aud": "else"}), ErrAudience},
		"no audience":           {with(claims{"aud": nil}), ErrClaims},
		"no user":               {with(claims{"sub": nil}), ErrClaims},
		"empty user":            {with(claims{"sub": ""}), ErrClaims},
		"user not a string":     {with(claims{"sub": 7}), ErrClaims},
		"user only by a custom": {with(claims{"sub": nil, "email": "a@example.com"}), ErrClaims},
	} {
		user, err := v.Verify(s.sign(t, tt.claims))
		if !errors.Is(err, tt.want) || (err == nil) != (user == "alice") {
			t.Errorf("%s: %q, %v; want %v", name, user, err, tt.want)
		}
	}
	byMail := verifier(t, Options{KeyFiles: []string{write(t, s.file)}, Claim: "email", Leeway: time.Minute})
	if user, err := byMail.Verify(s.sign(t, with(claims{"email": "a@example.com", "exp": now.Unix() - 59}))); user != "a@example.com" || err != nil {
		t.Errorf("by mail, within the leeway: %q, %v", user, err)
	}
}

// The forgeries that fooled other verifiers.
func TestForgeries(t *testing.T) {
	all := signers(t)
	rs := all["RS256"]
	v := verifier(t, Options{KeyFiles: []string{write(t, rs.file)}})
	token := rs.sign(t, good)
	part := strings.Split(token, ".")
	encode := base64.RawURLEncoding.EncodeToString
	none, err := jwtlib.NewWithClaims(jwtlib.SigningMethodNone, good).SignedString(jwtlib.UnsafeAllowNoneSignatureType)
	if err != nil {
		t.Fatal(err)
	}
	asSecret := signer{jwtlib.SigningMethodHS256, rs.file, nil}
	for name, forged := range map[string]string{
		"alg none":                    none,
		"alg None":                    encode([]byte(`{"alg":"None"}`)) + "." + part[1] + ".",
		"public key as HMAC secret":   asSecret.sign(t, good),
		"RS512 by the same key":       signer{jwtlib.SigningMethodRS512, rs.key, nil}.sign(t, good),
		"signature cut off":           part[0] + "." + part[1] + ".",
		"signature of another":        part[0] + "." + encode([]byte(`{"sub":"root","exp":9999999999}`)) + "." + part[2],
		"two parts":                   part[0] + "." + part[1],
		"empty":                       "",
		"dots":                        "..",
		"not base64":                  "?.?.?",
		"not JSON":                    encode([]byte("x")) + "." + part[1] + "." + part[2],
		"longer than any header":      token + strings.Repeat("A", maxToken),
		"bits after the last are set": token[:len(token)-1] + flip(token[len(token)-1]),
	} {
		user, err := v.Verify(forged)
		if err == nil || user != "" {
			t.Errorf("%s: accepted for %q", name, user)
		} else if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrSignature) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// flip changes a bit of the last base64 digit that its bytes do not use.
func flip(digit byte) string {
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return string(digits[strings.IndexByte(digits, digit)^1])
}

func TestBadKeys(t *testing.T) {
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	e, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(small)
	if err != nil {
		t.Fatal(err)
	}
	whole := public(t, e)
	sound, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	good := public(t, sound)
	for name, tt := range map[string]struct {
		content []byte
		want    string
	}{
		"empty":                  {nil, "a secret of 0 bytes is too short for HS256; at least 32"},
		"short secret":           {[]byte("secret\n"), "a secret of 6 bytes is too short"},
		"short RSA":              {public(t, small), "an RSA key of 1024 bits is too short; at least 2048"},
		"P-224":                  {whole, "has no algorithm here"},
		"private key":            {pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), "a private key; tokens are checked with the public one"},
		"other PEM":              {pem.EncodeToMemory(&pem.Block{Type: "DH PARAMETERS"}), `"DH PARAMETERS" is not a public key`},
		"cut PEM":                {whole[:len(whole)/2], "PEM block 1: not well formed"},
		"cut, a good one behind": {append(append(bytes.Clone(good[:len(good)/2]), '\n'), good...), "PEM block 1: not well formed"},
		"cut between good ones":  {slices.Concat(good, good[:len(good)/2], []byte("\n"), good), "PEM block 2: not well formed"},
		"bad DER":                {pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte{1}}), "PEM block 1: "},
	} {
		file := write(t, tt.content)
		_, err := New(Options{KeyFiles: []string{file}})
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), file+": ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := New(Options{KeyFiles: []string{filepath.Join(t.TempDir(), "absent")}}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	var config *identity.ConfigError
	if _, err := New(Options{}); !errors.As(err, &config) || config.Field != "user.jwt.key_files" {
		t.Errorf("no keys: %v", err)
	}
	if _, err := New(Options{KeyFiles: []string{"x"}, Leeway: time.Hour}); !errors.As(err, &config) || config.Field != "user.jwt.leeway" {
		t.Errorf("leeway: %v", err)
	}
}
