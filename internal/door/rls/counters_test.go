package rls

import (
	"strconv"
	"strings"
	"testing"
)

// Names that requests bring are kept up to a length: longer ones are counted
// together, and those that the file fixes are kept whatever their length.
func TestLongNamesAreCountedTogether(t *testing.T) {
	var s Service
	long := strings.Repeat("x", 1<<20)
	for i := range 3 {
		s.counters.unknownDomain(long + strconv.Itoa(i))
		s.counters.of("d", []string{"key_" + long + strconv.Itoa(i)}, false).Total.Add(1)
	}
	s.counters.of("d", []string{"key_" + long}, true).Total.Add(1)
	stats := s.Stats()
	if len(stats.UnknownDomains) != 1 || stats.UnknownDomains["other"] != 3 {
		t.Errorf("%d unknown domains, %d others", len(stats.UnknownDomains), stats.UnknownDomains["other"])
	}
	if len(stats.Rules) != 2 || stats.Rules[1].Path[0] != "other" || stats.Rules[1].Total.Load() != 3 {
		t.Errorf("%d series", len(stats.Rules))
	}
}
