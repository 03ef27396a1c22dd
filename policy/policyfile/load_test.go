package policyfile

import (
	"path/filepath"
	"testing"
)

func TestGoodFiles(t *testing.T) {
	names, err := filepath.Glob("testdata/good/*")
	if err != nil || len(names) == 0 {
		t.Fatal("no good files", err)
	}
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			if _, err := Load(name); err != nil {
				t.Errorf("%v", err)
			}
		})
	}
}
