package admin

import (
	"bytes"
	"embed"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"github.com/weirhq/weir/internal/door/api"
)

// The page is files as they are written: no build step, nothing from elsewhere.
// It knows what the JSON API tells and can do what the JSON API does, nothing
// more. Its policy lets it run its own scripts alone and make no HTML of text, so
// that a caller who puts markup into a key puts characters on a screen.

//go:embed page
var pageFiles embed.FS

const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

var mediaTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// showPage answers with one of the page's files.
func showPage(w http.ResponseWriter, name string, status int) {
	body, err := fs.ReadFile(pageFiles, "page/"+name)
	if err != nil {
		api.Refuse(w, api.Problem{Status: http.StatusNotFound, Detail: "there is nothing at this path"})
		return
	}
	writePage(w, name, status, body)
}

// showLogin answers with the login form, and what went wrong, if anything did.
func showLogin(w http.ResponseWriter, status int, problem string) {
	body, err := fs.ReadFile(pageFiles, "page/login.html")
	if err != nil {
		api.Refuse(w, api.Problem{Status: http.StatusNotFound, Detail: "there is nothing at this path"})
		return
	}
	writePage(w, "login.html", status, bytes.Replace(body, []byte("<!--problem-->"), []byte(problem), 1))
}

// showSession answers with the page to one who has logged in, and may log out.
func showSession(w http.ResponseWriter) {
	body, err := fs.ReadFile(pageFiles, "page/index.html")
	if err != nil {
		api.Refuse(w, api.Problem{Status: http.StatusNotFound, Detail: "there is nothing at this path"})
		return
	}
	writePage(w, "index.html", http.StatusOK, bytes.Replace(body, []byte(" hidden data-session"), nil, 1))
}

func writePage(w http.ResponseWriter, name string, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", mediaTypes[path.Ext(name)])
	h.Set("Content-Security-Policy", contentPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store") // it is small, and a new binary has a new one
	w.WriteHeader(status)
	_, _ = w.Write(body) // a peer that has gone away needs none
}

// pageRoutes adds the page to routes.
func pageRoutes(routes api.Routes) {
	routes["/"] = api.Route{Method: http.MethodGet, Serve: func(w http.ResponseWriter, _ *http.Request) {
		showPage(w, "index.html", http.StatusOK)
	}}
	for _, name := range pageNames() {
		if strings.HasSuffix(name, ".html") {
			continue
		}
		routes[pagePrefix+name] = api.Route{Method: http.MethodGet, Serve: func(w http.ResponseWriter, _ *http.Request) {
			showPage(w, name, http.StatusOK)
		}}
	}
}

// pagePrefix is where the page's files are, which hold nothing that is secret.
const pagePrefix = "/page/"

func pageNames() (names []string) {
	files, _ := fs.Glob(pageFiles, "page/*") // a pattern that is well formed
	for _, file := range files {
		names = append(names, path.Base(file))
	}
	return names
}
