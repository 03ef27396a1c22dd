package jwt

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	jwtlib "github.com/golang-jwt/jwt/v5"
)

// key is a verification key with the one algorithm it is good for. Which
// algorithm a token is checked by follows from the key and never from the token,
// so that a public key cannot be taken for an HMAC secret.
type key struct {
	algorithm string
	verify    jwtlib.VerificationKey
}

// The shortest keys accepted.
const (
	minSecretBytes = 32   // as long as the hash of HS256
	minRSABits     = 2048 // below it RS256 is a formality
)

// parseKeys reads the content of a key file: PEM blocks of public keys or
// certificates, any number of them for rotation, or else an HMAC secret, less
// the line end that editors add.
func parseKeys(content []byte) ([]key, error) {
	begin := []byte("-----BEGIN ")
	if !bytes.Contains(content, begin) {
		secret := bytes.TrimRight(content, "\r\n")
		if len(secret) < minSecretBytes {
			return nil, fmt.Errorf("a secret of %d bytes is too short for HS256; at least %d", len(secret), minSecretBytes)
		}
		return []key{{"HS256", bytes.Clone(secret)}}, nil
	}
	var keys []key
	for {
		var block *pem.Block
		begun := bytes.Count(content, begin)
		if block, content = pem.Decode(content); block == nil {
			break
		}
		if begun-bytes.Count(content, begin) > 1 { // Decode passes over what is broken
			return nil, fmt.Errorf("PEM block %d: not well formed", len(keys)+1)
		}
		k, err := parseBlock(block)
		if err != nil {
			return nil, fmt.Errorf("PEM block %d: %w", len(keys)+1, err)
		}
		keys = append(keys, k)
	}
	if len(keys) == 0 || len(bytes.TrimSpace(content)) > 0 {
		return nil, fmt.Errorf("PEM block %d: not well formed", len(keys)+1)
	}
	return keys, nil
}

func parseBlock(block *pem.Block) (key, error) {
	var public any
	var err error
	switch block.Type {
	case "PUBLIC KEY":
		public, err = x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		public, err = x509.ParsePKCS1PublicKey(block.Bytes)
	case "CERTIFICATE":
		var certificate *x509.Certificate
		if certificate, err = x509.ParseCertificate(block.Bytes); err == nil {
			public = certificate.PublicKey
		}
	case "PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "ENCRYPTED PRIVATE KEY":
		return key{}, errors.New("a private key; tokens are checked with the public one, and the private one belongs to who issues them")
	default:
		return key{}, fmt.Errorf("%q is not a public key or a certificate", block.Type)
	}
	if err != nil {
		return key{}, err
	}
	switch public := public.(type) {
	case *rsa.PublicKey:
		if public.N.BitLen() < minRSABits {
			return key{}, fmt.Errorf("an RSA key of %d bits is too short; at least %d", public.N.BitLen(), minRSABits)
		}
		return key{"RS256", public}, nil
	case ed25519.PublicKey:
		return key{"EdDSA", public}, nil
	case *ecdsa.PublicKey:
		switch public.Curve.Params().BitSize {
		case 256:
			return key{"ES256", public}, nil
		case 384:
			return key{"ES384", public}, nil
		case 521:
			return key{"ES512", public}, nil
		}
	}
	return key{}, fmt.Errorf("a key of type %T has no algorithm here; RSA, ECDSA and Ed25519 have", public)
}
