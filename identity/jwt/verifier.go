// Package jwt verifies JSON Web Tokens for identity: HS256, RS256, ES256,
// ES384, ES512 and EdDSA. It is apart from identity so that those who use no
// tokens build none of it.
package jwt

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"time"

	jwtlib "github.com/golang-jwt/jwt/v5"

	"github.com/weirhq/weir/identity"
)

// Options says which tokens are good.
type Options struct {
	// KeyFiles hold public keys or certificates as PEM, or one HMAC secret of at
	// least 32 bytes each. A token is good if any of them, of the kind that its
	// algorithm is for, verifies it.
	KeyFiles []string
	// Issuer and Audience must be the token's, if set.
	Issuer, Audience string
	// Claim names the user; "sub" by default. Its value must be a string.
	Claim string
	// Leeway forgives clocks that differ, at most 5 minutes; 0 forgives nothing.
	Leeway time.Duration
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

const maxLeeway = 5 * time.Minute

// maxToken bounds what is parsed; servers hardly accept longer headers.
const maxToken = 8 << 10

// Verifier checks tokens. It is safe for concurrent use. It remembers tokens that
// were good until they expire, in a bounded number; other keys make another
// Verifier, which remembers nothing.
type Verifier struct {
	good   goodTokens
	now    func() time.Time
	leeway time.Duration
	keys   map[string]jwtlib.VerificationKeySet // by algorithm
	parser *jwtlib.Parser
	claim  string
}

var _ identity.Verifier = (*Verifier)(nil)

// New reads the keys. Errors name the file, or are *identity.ConfigError.
func New(o Options) (*Verifier, error) {
	if len(o.KeyFiles) == 0 {
		return nil, &identity.ConfigError{Field: "user.jwt.key_files", Problem: "is missing; without a key every token would be good"}
	}
	if o.Leeway < 0 || o.Leeway > maxLeeway {
		return nil, &identity.ConfigError{Field: "user.jwt.leeway", Problem: fmt.Sprintf("%v is not within 0s to %v", o.Leeway, maxLeeway)}
	}
	v := &Verifier{now: time.Now, leeway: o.Leeway, keys: make(map[string]jwtlib.VerificationKeySet), claim: cmp.Or(o.Claim, "sub")}
	var algorithms []string
	for _, file := range o.KeyFiles {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		keys, err := parseKeys(content)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, k := range keys {
			set := v.keys[k.algorithm]
			set.Keys = append(set.Keys, k.verify)
			v.keys[k.algorithm] = set
			algorithms = append(algorithms, k.algorithm)
		}
	}
	options := []jwtlib.ParserOption{
		jwtlib.WithValidMethods(algorithms),
		jwtlib.WithExpirationRequired(), // a token without an end cannot be taken back
		jwtlib.WithLeeway(o.Leeway),
		jwtlib.WithStrictDecoding(),
	}
	if o.Issuer != "" {
		options = append(options, jwtlib.WithIssuer(o.Issuer))
	}
	if o.Audience != "" {
		options = append(options, jwtlib.WithAudience(o.Audience))
	}
	if o.Now != nil {
		v.now = o.Now
		options = append(options, jwtlib.WithTimeFunc(o.Now))
	}
	v.parser = jwtlib.NewParser(options...)
	return v, nil
}

// What is wrong with a token. The library's own errors quote parts of it.
var (
	ErrMalformed   = errors.New("jwt: not a token that can be read")
	ErrSignature   = errors.New("jwt: no key here verifies the token")
	ErrExpired     = errors.New("jwt: the token has expired")
	ErrNotYetValid = errors.New("jwt: the token is not valid yet")
	ErrIssuer      = errors.New("jwt: the token is by another issuer")
	ErrAudience    = errors.New("jwt: the token is for another audience")
	ErrClaims      = errors.New("jwt: the token lacks a claim, or has one that cannot be read")
)

var reasons = []struct{ library, ours error }{
	{jwtlib.ErrTokenMalformed, ErrMalformed},
	{jwtlib.ErrTokenUnverifiable, ErrSignature},
	{jwtlib.ErrTokenSignatureInvalid, ErrSignature},
	{jwtlib.ErrTokenExpired, ErrExpired},
	{jwtlib.ErrTokenNotValidYet, ErrNotYetValid},
	{jwtlib.ErrTokenInvalidIssuer, ErrIssuer},
	{jwtlib.ErrTokenInvalidAudience, ErrAudience},
}

// Verify checks signature, time, issuer and audience, and returns the user. The
// error is one of the Err values and holds nothing of the token.
func (v *Verifier) Verify(token string) (user string, err error) {
	if len(token) > maxToken {
		return "", ErrMalformed
	}
	print := sha256.Sum256([]byte(token))
	if user, ok := v.good.find(print, v.now()); ok {
		return user, nil
	}
	claims := jwtlib.MapClaims{}
	if _, err := v.parser.ParseWithClaims(token, claims, v.keysFor); err != nil {
		for _, r := range reasons {
			if errors.Is(err, r.library) {
				return "", r.ours
			}
		}
		return "", ErrClaims
	}
	user, _ = claims[v.claim].(string)
	if user == "" {
		return "", ErrClaims
	}
	if end, err := claims.GetExpirationTime(); err == nil && end != nil {
		v.good.add(print, user, end.Add(v.leeway), v.now())
	}
	return user, nil
}

func (v *Verifier) keysFor(t *jwtlib.Token) (any, error) {
	return v.keys[t.Method.Alg()], nil
}
