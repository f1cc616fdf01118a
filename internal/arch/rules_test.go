package arch

// rule says which of our packages a package may import, and why so few. A name that ends in /... stands for a tree.
type rule struct {
	pkg string
	may []string
	why string
}

// graph is the whole import graph. The most exact rule for a package holds.
var graph = []rule{
	{"cmd/gridnode", []string{"node", "examples"}, "the program reads flags and files; everything else is the node's business"},
	{"node", []string{"..."}, "it puts the parts together, so it is the one package that knows them all"},
	{"rest", []string{"engine", "grid"}, "a door asks the engine and the grid's vocabulary, never a layer below"},
	{"clientproto", []string{"imap", "imap/query", "grid"}, "a door asks the map, never a layer below, and never another door"},
	{"engine", []string{"engine/..."}, "jobs see the grid through interfaces of their own, so they run on a fake as well"},
	{"engine/...", []string{"engine", "engine/..."}, "jobs see the grid through interfaces of their own, so they run on a fake as well"},
	{"imap/query", []string{"grid", "grid/pack"}, "what is asked of entries is pure, and knows no map"},
	{"imap", []string{"grid", "grid/pack", "imap/query"}, "the map fits partition's interfaces by shape; only the node joins the two"},
	{"partition", []string{"grid", "grid/pack", "grid/wire"}, "replication knows neither what it replicates nor how messages travel"},
	{"grid/cluster", []string{"grid", "grid/pack", "grid/wire", "grid/transport"}, "membership must work without any data"},
	{"grid/transport", []string{"grid", "grid/pack", "grid/wire"}, "it carries messages and does not know what they mean"},
	{"grid/wire", []string{"grid"}, "messages speak the vocabulary only"},
	{"grid/pack", nil, "it makes bytes of values, whatever they mean"},
	{"grid", nil, "the vocabulary is at the bottom"},
	{"examples", nil, "it only holds files"},
	{"examples/clients/go", nil, "it is a program that a user may write"},
	{"internal/memnet", []string{"grid/transport"}, "a network carries bytes, whoever sends them"},
	{"internal/gridtest", []string{"..."}, "it starts whole members, and looks into them"},
	{"internal/arch", nil, "it reads the source and imports none of it"},
	{"e2e", nil, "it sees the program as a user does: from outside"},
	{"e2e/soak", nil, "it sees the program as a user does: from outside"},
	{"e2e/failover", nil, "it sees the program as a user does: from outside"},
	{"e2e/clients", nil, "it sees the program as a client does: from outside"},
	{"e2e/peers", []string{"e2e/clients"}, "it sees the program as a client does, beside other programs"},
	{"e2e/clients/member", []string{"node", "clientproto", "imap", "grid/transport"}, "it is a program of one's own with a member in it"},
}

// testOnly are packages that only tests, and each other, may import.
var testOnly = []string{"internal/memnet", "internal/gridtest", "engine/enginetest", "engine/connector/internal/connectortest", "e2e"}

// outside are packages whose tests must keep to the graph, too.
var outside = []string{"e2e", "e2e/clients", "e2e/failover", "e2e/peers", "e2e/soak", "internal/arch"}

// placement says which of our packages may import a module that is not ours. In tests any may.
type placement struct {
	module string
	in     []string
	why    string
}

var placements = []placement{
	{"github.com/anishathalye/porcupine", testOnly, "it checks histories in tests"},
	{"github.com/buraksezer/consistent", []string{"partition"}, "the ring gives an order of preference, and never owns placement"},
	{"github.com/cespare/xxhash/v2", []string{"partition"}, "it is the ring's hash; keys have Hazelcast's"},
	{"github.com/goccy/go-yaml", []string{"cmd/..."}, "configuration is read at the edge"},
	{"github.com/google/go-cmp", testOnly, "it compares in tests"},
	{"github.com/google/uuid", []string{"..."}, "anything may need a new name"},
	{"github.com/hazelcast/hazelcast-go-client", []string{"e2e/peers", "e2e/clients", "examples/clients/go"}, "it is what clients use; members speak its protocol themselves"},
	{"github.com/apache/thrift", []string{"e2e/clients"}, "the clients' own test suites are steered by it"},
	{"github.com/gorilla/mux", []string{"rest"}, "routes are the door's business"},
	{"github.com/hashicorp/go-hclog", []string{"grid/cluster"}, "raft logs through it, we do not"},
	{"github.com/hashicorp/memberlist", []string{"grid/cluster"}, "gossip is a hint, and only the cluster weighs hints"},
	{"github.com/hashicorp/raft", []string{"grid/cluster"}, "the rest sees agreed states and proposals"},
	{"github.com/prometheus/client_golang", []string{"rest", "node"}, "other packages count, they do not publish"},
	{"github.com/spf13/cobra", []string{"cmd/..."}, "flags are read at the edge"},
	{"github.com/spf13/pflag", []string{"cmd/..."}, "flags are read at the edge"},
	{"github.com/vmihailenco/msgpack/v5", []string{"grid/pack", "grid/wire", "grid/transport", "grid/cluster", "engine", "node"},
		"only what sends or stores encodes; the vocabulary, the doors and connectors do not"},
	{"go.uber.org/goleak", testOnly, "it looks for leaks in tests"},
	{"golang.org/x/sync", []string{"..."}, "it could be the standard library's"},
	{"golang.org/x/time", []string{"..."}, "it could be the standard library's"},
	{"pgregory.net/rapid", testOnly, "it draws values in tests"},
}
