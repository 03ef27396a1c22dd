package verify

import (
	"embed"
	"fmt"
)

// The vectors are answers of a brute-force model in exact rationals: single
// charges, bills, limits that change under a live balance, clocks that step.
//
//go:embed vectors/*.jsonl
var embedded embed.FS

// Files names the embedded vector files, without their suffix.
var Files = []string{"single", "bills", "changes", "clock"}

// Embedded returns the cases of the embedded vector files.
func Embedded() ([]Case, error) {
	var all []Case
	for _, name := range Files {
		cases, err := embeddedFile(name)
		if err != nil {
			return nil, err
		}
		all = append(all, cases...)
	}
	return all, nil
}

func embeddedFile(name string) ([]Case, error) {
	f, err := embedded.Open("vectors/" + name + ".jsonl")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	cases, err := ReadCases(f)
	if err != nil {
		return nil, fmt.Errorf("%s.jsonl: %w", name, err)
	}
	return cases, nil
}
