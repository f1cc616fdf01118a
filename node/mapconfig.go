package node

import "gridnode/imap"

// MapConfig is what a map is told: see [imap.MapConfig].
type MapConfig = imap.MapConfig

// Eviction says which entry goes when a map is too large: see [imap.Eviction].
type Eviction = imap.Eviction

// SizePolicy says what the size of a map is: see [imap.SizePolicy].
type SizePolicy = imap.SizePolicy
