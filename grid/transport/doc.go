// Package transport carries messages between members, over one port.
//
// # One port
//
// A stream says what it is in its first three bytes: a member connection, a raft stream, a gossip stream, or a client. After a member's
// own kinds of stream comes a handshake, one frame each way: who dials, from which cluster, and whom he expects to find. The other side
// refuses when it is somebody else; so a process that was restarted at the same address never gets what was meant for its predecessor, be
// it a request, a raft entry or a vote.
//
// # Member connections
//
// Two members share one connection, dialled when it is first needed and used in both directions. Senders append frames to a buffer under a
// short mutex; one writer takes the whole buffer and writes it, so that under load many frames share a system call. Handlers run on the
// connection's reader.
//
// # What an error says
//
// A request whose frame was not handed to a write when the connection ended (or that found no connection) did not run:
// grid.ErrUnreachable. After that, until the answer is here, nobody can know: grid.ErrIndeterminate.
//
// # Goroutines
//
// Per connection a reader and a writer; per stream being identified one, bounded by a deadline; one accepting; one dial per destination at
// most. [Transport.Run] joins them all.
package transport
