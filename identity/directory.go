package identity

import "context"

// Directory looks up what is kept outside the policy file. Implementations are
// safe for concurrent use, heed the context, and return an error only when they
// could not find out: "no such key" is found == false. They need no cache of
// their own; Lookups has one.
type Directory interface {
	// APIKey looks up a key by its id, the lower-case hex SHA-256 of the key.
	APIKey(ctx context.Context, id string) (record KeyRecord, found bool, err error)
	// Tenant looks up a tenant.
	Tenant(ctx context.Context, id string) (record TenantRecord, found bool, err error)
}

// KeyRecord is what is kept of an API key. In a directory an empty field leaves
// what the policy file says.
type KeyRecord struct {
	Tenant   string
	Plan     string
	Disabled bool
}

// TenantRecord is what is kept of a tenant.
type TenantRecord struct {
	Plan string
	// Limits by rule name, as ParseLimit reads them. The directory leaves out
	// what does not parse; nobody changes the map afterwards.
	Limits map[string]string
}
