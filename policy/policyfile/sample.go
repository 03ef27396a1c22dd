package policyfile

import _ "embed"

//go:embed sample.yaml
var sample []byte

// Sample returns a policy file that shows every setting and loads as it stands.
// It is what "weir policy init" prints, and the manual of the format.
func Sample() []byte { return append([]byte(nil), sample...) }
