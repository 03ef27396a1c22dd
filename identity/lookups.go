package identity

// Lookups is a Directory with a cache and a budget. It outlives the Resolvers
// that use it.
type Lookups struct{ directory Directory }
