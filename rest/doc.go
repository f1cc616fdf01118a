// Package rest is the HTTP face of a member: SeaTunnel's REST API, our own under /api/v1, health and metrics.
//
// It decodes, calls and encodes. It knows the cluster only through [Jobs], [Maps] and [Grid], and holds no state of it. Shapes and errors
// that clients see are decided here and nowhere else: errors.go maps every error to a status.
package rest
