package policyfile

import _ "embed"

//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema of the policy file, for editors. What it cannot
// say (that a rule can never apply, say) only the parser finds.
func Schema() []byte { return append([]byte(nil), schema...) }
