package identity

import "strconv"

// ConfigError is a configuration that cannot be used.
type ConfigError struct {
	Field   string // as the policy file has it, such as client_ip.header
	Problem string // what is wrong and what would be right; never a key
}

// Error returns the field and the problem.
func (e *ConfigError) Error() string { return e.Field + ": " + e.Problem }

// quoted shows a piece of configuration, cut to a readable length.
func quoted(s string) string {
	const most = 60
	if len(s) > most {
		s = s[:most] + "…"
	}
	return strconv.Quote(s)
}
