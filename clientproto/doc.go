// Package clientproto lets Hazelcast's own clients use the cluster: it speaks the Open Binary Client Protocol on streams that begin with CP2.
//
// A message is a run of frames (frame.go); what is in one is told by a table (schema.go), so that all requests are read, bounded and fuzzed
// by the same code. A connection (conn.go) runs many requests at once; each ends in an answer or an error with one of Hazelcast's codes
// (errors.go). The handlers of the client service and of maps are methods named in handlers.go.
//
// Source: hazelcast-client-protocol, protocol version 2.x. Integers of frames are little-endian, those inside serialized data big-endian.
package clientproto
