// Package check is the HTTP API in front of a limiter: take, batch, peek,
// refund and check, with healthz and readyz beside them. It turns requests into
// bills and bills into answers, and decides nothing itself.
package check
