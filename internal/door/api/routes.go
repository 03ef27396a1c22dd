package api

import "net/http"

// Routes are what a door answers to: paths that match as they stand. They are
// few and fixed, and a mux would answer a wrong method in plain text. Routes must
// not be changed once they are served.
type Routes map[string]Route

// Route is one path of a door.
type Route struct {
	Method string // http.MethodGet covers HEAD
	Serve  http.HandlerFunc
}

// ServeHTTP implements http.Handler.
func (routes Routes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	route, ok := routes[r.URL.Path]
	if !ok {
		Refuse(w, Problem{Status: http.StatusNotFound, Detail: "there is nothing at this path"})
		return
	}
	get := route.Method == http.MethodGet
	if r.Method != route.Method && !(get && r.Method == http.MethodHead) {
		allow := route.Method
		if get {
			allow = "GET, HEAD"
		}
		w.Header().Set("Allow", allow)
		Refuse(w, Problem{Status: http.StatusMethodNotAllowed, Detail: "this path takes " + allow})
		return
	}
	route.Serve(w, r)
}
