package identity

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
)

// keyring holds the keys of the configuration by their SHA-256.
type keyring map[keySum]namedKey

// hashPrefix marks a key that is given by its SHA-256.
const hashPrefix = "sha256:"

// maxKeyBytes is longer than any key has reason to be; longer ones are unknown
// without being hashed.
const maxKeyBytes = 512

func newKeyring(keys map[string]KeyRecord) (keyring, error) {
	ring := make(keyring, len(keys))
	for key, record := range keys {
		sum, problem := sumOf(key)
		if problem != "" {
			return nil, &ConfigError{Field: "api_keys.keys", Problem: problem}
		}
		if _, twice := ring[sum]; twice {
			return nil, &ConfigError{Field: "api_keys.keys", Problem: "a key is given twice, by itself and by its hash"}
		}
		ring[sum] = namedKey{record, hex.EncodeToString(sum[:])}
	}
	return ring, nil
}

// sumOf returns the hash of a key as the configuration gives it, or what is
// wrong with it. The key itself never shows.
func sumOf(key string) (sum keySum, problem string) {
	digits, hashed := strings.CutPrefix(key, hashPrefix)
	switch {
	case hashed:
		b, err := hex.DecodeString(digits)
		if err != nil || len(b) != len(sum) {
			return sum, fmt.Sprintf("%s takes %d hex digits, as sha256sum prints them; a key has %d characters there", hashPrefix, 2*len(sum), len(digits))
		}
		return keySum(b), ""
	case key == "":
		return sum, "a key is empty"
	case len(key) > maxKeyBytes:
		return sum, fmt.Sprintf("a key is longer than %d bytes", maxKeyBytes)
	case strings.Trim(key, " \t\r\n") != key:
		return sum, "a key begins or ends with white space, which no header can carry"
	}
	return hashKey(key), ""
}

// hashKey hashes a key of at most maxKeyBytes without allocating.
func hashKey(key string) keySum {
	var space [maxKeyBytes]byte
	return sha256.Sum256(space[:copy(space[:], key)])
}

// credential returns what a header presents: its value, or the Bearer token of
// Authorization. Given twice it is none.
func credential(h Header, name string) string {
	value := headerValue(h, name)
	if name != authorization {
		return value
	}
	scheme, token, _ := strings.Cut(value, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.Trim(token, " ")
}

const authorization = "Authorization"

// ReadKeys reads a file of API keys, one a line, for Config.APIKeys.Keys:
//
//	# key or its SHA-256, then what is kept of it
//	k-acme-1                 tenant=acme
//	sha256:9f86d081884c7d65… tenant=beta plan=pro
//	k-old                    tenant=acme disabled
//
// The error names the line and never the key.
func ReadKeys(r io.Reader) (map[string]KeyRecord, error) {
	keys := make(map[string]KeyRecord)
	seen := make(map[keySum]int)
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || words[0][0] == '#' {
			continue
		}
		bad := func(problem string) error {
			return &ConfigError{Field: fmt.Sprintf("line %d", n), Problem: problem}
		}
		sum, problem := sumOf(words[0])
		if problem != "" {
			return nil, bad(problem)
		}
		if first := seen[sum]; first != 0 {
			return nil, bad(fmt.Sprintf("the key of line %d again", first))
		}
		seen[sum] = n
		var record KeyRecord
		for _, word := range words[1:] {
			name, value, given := strings.Cut(word, "=")
			switch {
			case name == "tenant" && value != "" && record.Tenant == "":
				record.Tenant = value
			case name == "plan" && value != "" && record.Plan == "":
				record.Plan = value
			case word == "disabled" && !record.Disabled:
				record.Disabled = true
			case given && (name == "tenant" || name == "plan"):
				return nil, bad(name + " is empty or given twice")
			default:
				// The word may be the rest of a key with a space in it.
				return nil, bad("after the key only tenant=NAME, plan=NAME and disabled, each once")
			}
		}
		keys[words[0]] = record
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading API keys: %w", err)
	}
	return keys, nil
}
