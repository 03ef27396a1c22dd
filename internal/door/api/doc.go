// Package api is what the HTTP doors that speak JSON have in common: routes,
// strict bodies, the shape of a refusal that is no decision, and who may talk
// to a door at all.
package api
