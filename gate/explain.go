package gate

// Explanation is what Decide would answer and why, in the words of the admin
// endpoint.
type Explanation struct {
	Caller struct {
		IP     string `json:"ip"`
		Tenant string `json:"tenant"`
		Plan   string `json:"plan"`
		User   string `json:"user"`
	} `json:"caller"`
	Matched []Matched `json:"matched"`
	Skipped []Skipped `json:"skipped"`
	Allowed bool      `json:"allowed"`
	Reason  string    `json:"reason"`
}

// Matched is a rule that applies.
type Matched struct {
	Rule         string `json:"rule"`
	Key          string `json:"key"`
	Cost         int64  `json:"cost"`
	Limit        string `json:"limit"`
	Remaining    *int64 `json:"remaining"` // null for an unlimited charge
	Allowed      bool   `json:"allowed"`
	RetryAfterMS int64  `json:"retry_after_ms"`
	Shadow       bool   `json:"shadow,omitempty"`
}

// Skipped is a rule that does not apply.
type Skipped struct {
	Rule string `json:"rule"`
	Why  string `json:"why"`
}
