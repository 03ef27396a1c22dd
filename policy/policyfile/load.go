// Package policyfile reads the policy file. It is the only place that knows
// YAML, and strict: what it does not know is a fault, with the line and column
// where it stands and the word that was most likely meant.
//
//	policy.yaml → tree → reader → File{settings, policy.Policy}
package policyfile

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/weirhq/weir/identity"
	"github.com/weirhq/weir/policy"
)

// Load reads a policy file and the files it names that are part of the policy
// (api_keys.file and denied.body_file). The error is an Errors, or that of the
// file system.
func Load(name string) (*File, error) {
	data, err := readFile(name, MaxSize)
	if err != nil {
		return nil, err
	}
	return read(name, filepath.Dir(name), data)
}

// Parse is Load for a file that is already in memory. Name begins the messages;
// files it names are relative to the working directory.
func Parse(name string, data []byte) (*File, error) { return read(name, ".", data) }

func read(name, folder string, data []byte) (*File, error) {
	tree, err := parseTree(name, data)
	if err != nil {
		if fault := (*Error)(nil); errors.As(err, &fault) {
			return nil, Errors{fault}
		}
		return nil, err
	}
	r := newReader(name, folder)
	r.sum.Write(data)
	f := defaults(name)
	if tree.kind == null {
		r.fail(tree, "the file is empty; write \"limits: []\" for a policy without rules")
	}
	r.object(tree, "", "the policy file", r.fields(f))
	if len(r.errs) == 0 {
		r.compile(f)
	}
	if len(r.errs) > 0 {
		return nil, r.errs.sorted()
	}
	f.Version = hex.EncodeToString(r.sum.Sum(nil)[:6])
	f.places, f.read = r.places, append([]string{name}, r.read...)
	return f, nil
}

func newReader(name, folder string) *reader {
	return &reader{file: name, folder: folder, places: map[string]place{}, stated: map[string]bool{}, budget: maxNodes, sum: sha256.New()}
}

// compile turns what was read into a policy. Its faults name fields as paths,
// which are found again in the file.
func (r *reader) compile(f *File) {
	p, err := policy.Compile(f.source)
	var faults policy.Faults
	if errors.As(err, &faults) {
		for _, fault := range faults {
			m := r.place(fault.Field)
			problem := fault.Problem
			if startsLower(problem) {
				problem = last(fault.Field) + " " + problem
			}
			r.fail(&node{line: m.line, column: m.column}, "%s", problem)
		}
		return
	}
	f.Policy = p
	r.checkAnnounced(f)
	r.checkRegions(f)
	r.checkTests(f)
	config := identity.Config{
		ClientIP: f.ClientIP, Tenants: f.Tenants,
		APIKeys: identity.APIKeys{Header: f.APIKeys.Header, Keys: f.APIKeys.Keys},
		User:    identity.User{Header: f.User.Header, TokenHeader: f.User.JWT.Header},
	}
	var wrong *identity.ConfigError
	if _, err := identity.NewResolver(config); errors.As(err, &wrong) {
		m := r.place(wrong.Field)
		r.fail(&node{line: m.line, column: m.column}, "%s", wrong.Problem)
	}
}

func startsLower(s string) bool { return s != "" && s[0] >= 'a' && s[0] <= 'z' }

// last is the last name of a path. A name that is itself a path begins with /.
func last(path string) string {
	head, _, _ := strings.Cut(path, "/")
	return path[strings.LastIndexByte(head, '.')+1:]
}

func (r *reader) place(path string) place { return placeOf(r.places, path) }

// placeOf returns where a field stands, or what it would stand in.
func placeOf(places map[string]place, path string) place {
	for {
		if m, ok := places[path]; ok {
			return m
		}
		i := strings.LastIndexAny(path, ".[")
		if i < 0 {
			return place{1, 1}
		}
		path = path[:i]
	}
}

// The bounds on files that belong to a policy.
const (
	maxBody    = 1 << 20
	maxKeyFile = 64 << 20
)

// relative returns a file's path as seen from the working directory.
func (r *reader) relative(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(r.folder, name)
}

// fileTo reads the name of a file.
func (r *reader) fileTo(to *string) func(*node, string) {
	return func(n *node, path string) {
		name := ""
		if r.scalarTo(&name)(n, path); name != "" {
			*to = r.relative(name)
		}
	}
}

// companion reads a file that belongs to the policy.
func (r *reader) companion(name, path string, most int64) []byte {
	data, err := readFile(name, most)
	if err != nil {
		m := r.place(path)
		r.fail(&node{line: m.line, column: m.column}, "%v", err)
		return nil
	}
	r.read = append(r.read, name)
	r.sum.Write(data)
	return data
}

// keyFile adds the keys of a file of their own.
func (r *reader) keyFile(to *APIKeys) {
	data := r.companion(to.File, "api_keys.file", maxKeyFile)
	if data == nil {
		return
	}
	m := r.place("api_keys.file")
	at := &node{line: m.line, column: m.column}
	keys, err := identity.ReadKeys(strings.NewReader(string(data)))
	if err != nil {
		r.fail(at, "%s: %v", to.File, err)
		return
	}
	for key, record := range keys {
		if _, twice := to.Keys[key]; twice {
			r.fail(at, "a key stands both in keys and in %s", to.File)
			return
		}
		to.Keys[key] = record
	}
}

// readFile reads a file of a bounded size.
func readFile(name string, most int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > most {
		return nil, fmt.Errorf("%s is larger than %d MiB", name, most>>20)
	}
	return data, nil
}
