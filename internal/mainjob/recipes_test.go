package mainjob

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/goccy/go-yaml"
)

// The recipes for Traefik and Envoy are not run: distributions have no packages
// of these. What can be held without them is that the files are YAML, without a
// key twice, and that what matters stands where it must.
func TestRecipesThatAreNotRun(t *testing.T) {
	const (
		middleware = "$.http.middlewares.weir.forwardAuth"
		manager    = "$.static_resources.listeners[0].filter_chains[0].filters[0].typed_config"
		authz      = manager + ".http_filters[0].typed_config"
	)
	for file, wants := range map[string]map[string]any{
		"traefik/traefik.yaml": {"$.entryPoints.web.address": "127.0.0.1:8000", "$.providers.file.filename": "recipe.yaml", "$.ping.manualRouting": true},
		"traefik/closed.yaml":  {middleware + ".address": "http://127.0.0.1:8080/v1/auth/traefik", middleware + ".trustForwardHeader": false, "$.http.routers.service.middlewares[0]": "weir"},
		"traefik/open.yaml":    {middleware + ".address": "http://127.0.0.1:8078/v1/auth/traefik", middleware + ".trustForwardHeader": false, "$.http.services.weir-or-pass.failover.service": "weir"},
		"envoy/open.yaml":      {manager + ".use_remote_address": true, authz + ".failure_mode_allow": true, authz + ".http_service.path_prefix": "/v1/auth/envoy", authz + ".allowed_headers.patterns[0].exact": "x-forwarded-for"},
		"envoy/closed.yaml":    {manager + ".use_remote_address": true, authz + ".failure_mode_allow": false, authz + ".status_on_error.code": "ServiceUnavailable", authz + ".http_service.path_prefix": "/v1/auth/envoy", authz + ".allowed_headers.patterns[0].exact": "x-forwarded-for"},
	} {
		text, err := os.ReadFile(filepath.Join("../../examples", file))
		if err != nil {
			t.Fatal(err)
		}
		var all any
		if err := yaml.UnmarshalWithOptions(text, &all, yaml.Strict()); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		for path, want := range wants {
			var got any
			at, err := yaml.PathString(path)
			if err == nil {
				err = at.Read(bytes.NewReader(text), &got)
			}
			if err != nil || got != want {
				t.Errorf("%s: %s is %v, not %v (%v)", file, path, got, want, err)
			}
		}
	}
}
