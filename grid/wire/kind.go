package wire

import "strconv"

// Kind says what a frame's body is. The numbers are part of the protocol: they are never used twice.
type Kind uint8

// Kinds of the cluster's own control messages.
const (
	Handshake Kind = 1 + iota // the first frame each way on a stream; see transport
	Ping                      // keeps a connection known to be alive; one-way, empty
	Hello                     // who are you, and which cluster do you know?
	Join                      // make me a member
	Heartbeat                 // renew my lease
	Confirm                   // which raft term do you know? asked of voters
	Propose                   // put this command into the log
	Leave                     // I am leaving: reserved for a direct request, members leave by proposals
)

// Kinds of the messages of a recovery without a majority.
const (
	RecoverAsk Kind = 24 + iota // what do you know? and take part in no other recovery for a while
	RecoverDo                   // go on from this state, in this group
)

// Kinds of the partitions' messages.
const (
	Invoke Kind = 32 + iota
	InvokeMany
	Effects
	Ack
	Missing
	Seal
	Sealed
	Snapshot
	Copied
	Instruct
)

// Kinds of the client door's messages.
const (
	ClientAsk Kind = 72 + iota // is this client connected to you?
)

// Kinds of what else members ask each other.
const (
	EngineCall Kind = 64 + iota // carries the job engine's calls
	SystemInfo                  // how are your process and machine?
	Registry                    // carries what members tell each other of map listeners and indexes, and events
)

func (k Kind) String() string {
	if name, ok := kindNames[k]; ok {
		return name
	}
	return "kind " + strconv.Itoa(int(k))
}

var kindNames = map[Kind]string{
	Handshake: "handshake", Ping: "ping", Hello: "hello", Join: "join", Heartbeat: "heartbeat", Confirm: "confirm", Propose: "propose",
	Leave: "leave", Invoke: "invoke", InvokeMany: "invoke many", Effects: "effects", Ack: "ack", Missing: "missing", Seal: "seal",
	Sealed: "sealed", Snapshot: "snapshot", Copied: "copied", Instruct: "instruct", EngineCall: "engine call",
	SystemInfo: "system info", Registry: "registry", ClientAsk: "client ask", RecoverAsk: "recover ask", RecoverDo: "recover do",
}

// Flag says which part of an exchange a frame is.
type Flag uint8

// The flags.
const (
	Request Flag = iota // wants one answer, with the same correlation id
	Reply               // the answer
	Failure             // the answer is an error; see [AppendError]
	OneWay              // wants no answer; the correlation id is 0
)
