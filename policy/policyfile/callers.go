package policyfile

import (
	"time"

	"github.com/weirhq/weir/identity"
)

// apiKeys reads who has which key. Keys are secrets: no message quotes one.
func (r *reader) apiKeys(n *node, path string, to *APIKeys) {
	to.Keys = map[string]identity.KeyRecord{}
	given := r.object(n, path, "api_keys", []field{
		{"header", r.headerTo(&to.Header)},
		{"keys", func(n *node, path string) {
			r.entries(n, path, "keys", true, func(key string, _, v *node, path string) {
				to.Keys[key] = r.keyRecord(v, path)
			})
		}},
		{"file", r.fileTo(&to.File)},
		{"redis", r.truthTo(&to.Redis)},
	})
	if given && to.Header == "" {
		r.fail(n, "api_keys needs header:, the header that carries the key, such as X-API-Key or Authorization")
	}
	if given && len(to.Keys) == 0 && to.File == "" && !to.Redis {
		r.fail(n, "api_keys names no key; write keys:, file: or redis: true")
	}
	if to.File != "" {
		r.keyFile(to)
	}
}

func (r *reader) keyRecord(n *node, path string) (record identity.KeyRecord) {
	r.object(n, path, "an API key", []field{
		{"tenant", r.scalarTo(&record.Tenant)},
		{"plan", r.scalarTo(&record.Plan)},
		{"disabled", r.truthTo(&record.Disabled)},
	})
	return record
}

func (r *reader) tenants(n *node, path string, f *File) {
	f.Tenants = map[string]identity.TenantRecord{}
	r.entries(n, path, "tenants", false, func(name string, _, v *node, path string) {
		var record identity.TenantRecord
		r.object(v, path, "a tenant", []field{{"plan", r.scalarTo(&record.Plan)}})
		f.Tenants[name] = record
	})
}

func (r *reader) user(n *node, path string, to *User) {
	given := r.object(n, path, "user", []field{
		{"header", r.headerTo(&to.Header)},
		{"jwt", func(n *node, path string) { r.jwt(n, path, &to.JWT) }},
	})
	if _, jwt := r.places[join(path, "jwt")]; given && to.Header == "" && !jwt {
		r.fail(n, "user needs header: or jwt:")
	}
}

func (r *reader) jwt(n *node, path string, to *JWT) {
	to.Header, to.Claim = "Authorization", "sub"
	given := r.object(n, path, "user.jwt", []field{
		{"key_files", func(n *node, path string) {
			for _, name := range r.texts(n, path, "key_files") {
				to.KeyFiles = append(to.KeyFiles, r.relative(name))
			}
		}},
		{"header", r.headerTo(&to.Header)},
		{"issuer", r.scalarTo(&to.Issuer)},
		{"audience", r.scalarTo(&to.Audience)},
		{"claim", r.scalarTo(&to.Claim)},
		{"leeway", r.durationTo(&to.Leeway, 0, 5*time.Minute)},
	})
	if given && len(to.KeyFiles) == 0 {
		r.fail(n, "jwt needs key_files:, the keys that tokens are checked with")
	}
}
