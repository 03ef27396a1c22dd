// Package rounds holds what every comparison does with the samples of its
// interleaved rounds.
package rounds

import "slices"

// Median returns the middle of samples, which must not be empty.
func Median(samples []float64) float64 {
	s := slices.Sorted(slices.Values(samples))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}
