package rlsconfig

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Options are what that server takes from its environment.
type Options struct {
	// Merge lets several files add descriptors to one domain
	// (MERGE_DOMAIN_CONFIG).
	Merge bool
	// AllOrNothing is said for every rule that a request states itself, and for
	// every file that does not say it (STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT).
	AllOrNothing bool
}

// Load reads every .yaml and .yml file of dir and of the directories below.
// Names that begin with a dot are passed over, and so are links to directories,
// so that what a Kubernetes volume keeps behind ..data is read once. The error is
// an Errors with every fault, or that of the file system.
func Load(dir string, o Options) (*Config, error) {
	files, err := list(dir)
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s holds no .yaml file", dir)
	}
	c := &Config{domains: map[string]*Domain{}, Files: files}
	var errs Errors
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		errs = append(errs, c.add(file, data, o)...)
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return c, nil
}

// Parse reads files that are given as name and text in turn.
func Parse(o Options, files ...string) (*Config, error) {
	c := &Config{domains: map[string]*Domain{}}
	var errs Errors
	for i := 0; i+1 < len(files); i += 2 {
		errs = append(errs, c.add(files[i], []byte(files[i+1]), o)...)
		c.Files = append(c.Files, files[i])
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return c, nil
}

// add reads one file into c.
func (c *Config) add(file string, data []byte, o Options) Errors {
	r := &reader{file: file, all: o.AllOrNothing}
	root, err := parse(file, data)
	if err != nil {
		var e *Error
		errors.As(err, &e) // parse has no other
		return Errors{e}
	}
	var d *Domain
	if old := c.domains[nameOf(root)]; old != nil {
		if !o.Merge {
			r.fail(root, "duplicate domain '%s' in config file; let files share a domain with --rls-merge-domains", clip(old.Name))
			return r.errs
		}
		d = old
	}
	if d = r.domain(root, d); d != nil && len(r.errs) == 0 {
		c.domains[d.Name] = d
	}
	slices.SortStableFunc(r.errs, func(a, b *Error) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return r.errs
}

// nameOf returns the domain of a file before it is read.
func nameOf(root *node) (name string) {
	for i := 0; root != nil && root.kind == mapping && i < len(root.items); i += 2 {
		if root.items[i].text == "domain" {
			name = root.items[i+1].text
		}
	}
	return name
}

func list(dir string) (files []string, err error) {
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path != dir && strings.HasPrefix(entry.Name(), "."):
			if entry.IsDir() {
				return filepath.SkipDir
			}
			return nil
		case entry.IsDir():
			return nil
		}
		if ext := filepath.Ext(path); ext != ".yaml" && ext != ".yml" {
			return nil
		}
		info, err := os.Stat(path) // follows links
		if err != nil {
			return err
		}
		if info.Mode().IsRegular() {
			files = append(files, path)
		}
		return nil
	})
	return files, err
}

// Print is what a directory holds, as a hash; a directory that cannot be read
// has one of its own. It is asked for again and again to see a change.
func Print(dir string) [sha256.Size]byte {
	h := sha256.New()
	files, err := list(dir)
	if err != nil {
		_, _ = fmt.Fprintln(h, "unreadable") // a hash takes everything
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil || len(data) > maxSize {
			_, _ = fmt.Fprintln(h, "unreadable", len(data))
			data = nil
		}
		_, _ = fmt.Fprintf(h, "%q %d\n", file, len(data))
		h.Write(data)
	}
	return [sha256.Size]byte(h.Sum(nil))
}
