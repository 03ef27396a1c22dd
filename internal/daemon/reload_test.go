package daemon

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/weirhq/weir/headers"
	"github.com/weirhq/weir/policy/policyfile"
	"github.com/weirhq/weir/redisstore"
)

// TestReloadHeedsOrTells: a setting that a running daemon does not change is
// told. A setting that is new in the file must be placed here.
func TestReloadHeedsOrTells(t *testing.T) {
	heeded := []string{"Name", "Version", "ClientIP", "APIKeys", "Tenants", "User", "Headers", "RetryJitter", "Denied", "Policy",
		"Tests"} // for policy test, which no daemon runs
	changed := map[string]func(*policyfile.File){
		"Store":           func(f *policyfile.File) { f.Store.Connections++ },
		"KeyPrefix":       func(f *policyfile.File) { f.KeyPrefix = "other" },
		"KeySecretFile":   func(f *policyfile.File) { f.KeySecretFile = "other" },
		"DecisionTimeout": func(f *policyfile.File) { f.DecisionTimeout++ },
		"MaxOvershoot":    func(f *policyfile.File) { f.MaxOvershoot++ },
		"Listen":          func(f *policyfile.File) { f.Listen.HTTP.Auth = "none" },
		"Admin":           func(f *policyfile.File) { f.Admin.OpenMetrics = true },
		"Regions":         func(f *policyfile.File) { f.Regions.Name = "other" },
		"Events":          func(f *policyfile.File) { f.Events.Admitted++ },
	}
	for field := range reflect.TypeFor[policyfile.File]().Fields() {
		if !field.IsExported() || slices.Contains(heeded, field.Name) {
			continue
		}
		change, known := changed[field.Name]
		if !known {
			t.Errorf("nobody says what a reload does about %s", field.Name)
			continue
		}
		is := policyfile.File{}
		change(&is)
		names := fixed(&policyfile.File{}, &is)
		if len(names) != 1 || strings.ReplaceAll(names[0], "_", "") != strings.ToLower(field.Name) {
			t.Errorf("a change of %s is told as %q", field.Name, names)
		}
	}
	if names := fixed(&policyfile.File{}, &policyfile.File{}); len(names) != 0 {
		t.Errorf("nothing changed, told are %q", names)
	}
}

// TestOneDecisionTimeout: a file that says nothing means what no file means.
func TestOneDecisionTimeout(t *testing.T) {
	f, err := policyfile.Parse("p.yaml", []byte("limits: []"))
	if err != nil || f.DecisionTimeout != redisstore.DefaultTimeout {
		t.Errorf("%v, %v, want %v", f.DecisionTimeout, err, redisstore.DefaultTimeout)
	}
}

// TestAJitterIsAsTheFileSays: a part of a percent too. Less than one was taken for
// nothing said, which is the usual 20 %.
func TestAJitterIsAsTheFileSays(t *testing.T) {
	for text, want := range map[string]headers.Jitter{
		"": headers.DefaultJitter, "retry_jitter: 0": headers.NoJitter, "retry_jitter: 0%": headers.NoJitter,
		"retry_jitter: 0.01%": 0.01, "retry_jitter: 0.5%": 0.5, "retry_jitter: 12.5%": 12.5, "retry_jitter: 100%": 100,
	} {
		f, err := policyfile.Parse("p.yaml", []byte("limits: []\n"+text))
		if err != nil {
			t.Fatal(err)
		}
		if got := shapeOf(f).Jitter; got != want {
			t.Errorf("%q gives a jitter of %v, want %v", text, got, want)
		}
	}
}
