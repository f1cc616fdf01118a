package grid

// Moves is what the table still owes: how far it is from what the master aims at.
type Moves struct {
	Running   int // replicas that are being brought up
	Waiting   int // replicas that are to be brought up and have not begun
	HandOvers int // partitions that are to get another primary
	Drops     int // replicas that are to be given up
}

// Done reports whether nothing is owed.
func (m Moves) Done() bool { return m == Moves{} }

// Sending is what one member sends of whole partitions.
type Sending struct {
	Copies int   // under way
	Sent   int64 // bytes of copies that have arrived, since the member joined
	Left   int64 // bytes of those under way that have not, about
}
