// Package frameworks shows Weir in web frameworks whose middleware is not that of
// net/http. Each file is to be read, and copied.
package frameworks
