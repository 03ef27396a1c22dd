package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weirhq/weir"
)

// TestALimitIsThatOfItsText: limits that take turns, and bad ones between them,
// are each read as what they say.
func TestALimitIsThatOfItsText(t *testing.T) {
	for range 50 {
		for _, text := range []string{"", "5/min", "5/min", "5/x", "6/min", "", "5/min burst=7", "5/min"} {
			want, wrong := weir.ParseLimit(text)
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`"`+text+`"`))
			r.Header.Set("Content-Type", "application/json")
			var got weir.Limit
			ok := Read(httptest.NewRecorder(), r, func(b *Body) (err error) { got, err = b.Limit(); return err })
			if ok != (wrong == nil) || ok && got != want {
				t.Fatalf("%q: %v, %v", text, ok, got)
			}
		}
	}
}
