package node

import (
	"gridnode/imap"
	"gridnode/imap/query"
)

// MapConfig is what a map is told: see [imap.MapConfig].
type MapConfig = imap.MapConfig

// IndexConfig is an index of a map: see [imap.IndexConfig].
type IndexConfig = imap.IndexConfig

// IndexType is how an index is ordered: see [query.IndexType].
type IndexType = query.IndexType

// Eviction says which entry goes when a map is too large: see [imap.Eviction].
type Eviction = imap.Eviction

// SizePolicy says what the size of a map is: see [imap.SizePolicy].
type SizePolicy = imap.SizePolicy
