// Package imap is the distributed map: named maps of entries, spread over the partitions by their keys.
//
// The caller's side ([Grid], [Map]) encodes an operation and sends it to the primary of the key's partition. The data's side ([Store])
// decides it there and turns it into effects that every replica applies.
package imap
