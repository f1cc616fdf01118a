package gridtest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// A plan is the schedule of one history. It follows from its seed alone; whom a step hits is said by role, and found when its time comes.
type plan struct {
	seed    uint64
	members int
	backups int
	session time.Duration // after which a silent member is removed
	lease   time.Duration
	rounds  []round
}

// round is a run of steps at once or one after another. After it everything is mended and the cluster has to become safe, so that what one
// round costs is over before the next. A round never puts more members at risk than there are backups, nor a majority of voters.
type round struct {
	family string
	steps  []step
}

// step is one fault. A step that lasts is undone after that time, the others at the end of the round.
type step struct {
	after time.Duration // since the step before
	act   action
	who   role
	lasts time.Duration
	delay time.Duration // of slow links
}

type action string

const (
	crash        action = "crash"          // its host comes back after lasts, as a new member
	crashIfSpare action = "crash if spare" // unless it alone has some partition
	pause        action = "pause"          // as by SIGSTOP
	isolate      action = "isolate"        // from all, both ways
	deaf         action = "deaf"           // it hears nobody
	mute         action = "mute"           // nobody hears it
	bridge       action = "bridge"         // it and the backup do not see each other; the others see both
	oneWay       action = "one way"        // it is not heard by the backup
	slowIn       action = "slow in"        // what the master sends it is late
	slowPair     action = "slow pair"      // what it sends the backup is late
	slowNew      action = "slow new"       // what is sent to a host that joins is late
	tableLag     action = "table lag"      // what raft sends it is held
	join         action = "join"
	leave        action = "leave" // as by SIGTERM
)

// role says whom a step is about. The partition is that of a key of the registers, which differs from round to round.
type role string

const (
	thePrimary  role = "primary"
	theBackup   role = "backup"
	theMaster   role = "master"
	theOutsider role = "outsider" // a primary whose backup is not the master either
	theSame     role = "same"     // as the step before
	anybody     role = "any"
)

func (p plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %d members, %d backups, session %v, lease %v", p.seed, p.members, p.backups, p.session, p.lease)
	for i, r := range p.rounds {
		fmt.Fprintf(&b, "\n  round %d, %s:", i+1, r.family)
		for _, s := range r.steps {
			fmt.Fprintf(&b, " +%v %s %s", s.after, s.act, s.who)
			if s.delay > 0 {
				fmt.Fprintf(&b, " by %v", s.delay)
			}
			if s.lasts > 0 {
				fmt.Fprintf(&b, " for %v", s.lasts)
			}
			b.WriteString(";")
		}
	}
	return b.String()
}

// families are the kinds of round, with their weights. Each is biased towards a window in which a rule of the protocol matters.
var families = []struct {
	name   string
	weight int
	make   func(*rand.Rand) []step
}{
	{"crash", 5, func(r *rand.Rand) []step {
		return []step{{within(r, 0, 30), crash, pick(r, thePrimary, thePrimary, theMaster, theBackup, anybody), restartAfter(r), 0}}
	}},
	{"crash in mid-write", 3, func(r *rand.Rand) []step {
		return []step{{0, slowPair, thePrimary, 0, within(r, 1, 30)}, {within(r, 30, 60), crash, thePrimary, restartAfter(r), 0}}
	}},
	{"silent backup", 2, func(r *rand.Rand) []step {
		return []step{{0, bridge, theOutsider, within(r, 3900, 4300), 0}, {within(r, 3000, 3500), crashIfSpare, theSame, restartAfter(r), 0}}
	}},
	{"pause", 3, func(r *rand.Rand) []step {
		return []step{{within(r, 0, 30), pause, pick(r, thePrimary, theMaster, theBackup), disturbance(r), 0}}
	}},
	{"isolate", 3, func(r *rand.Rand) []step {
		return []step{{within(r, 0, 30), isolate, pick(r, thePrimary, theMaster, theBackup), disturbance(r), 0}}
	}},
	{"one way", 3, func(r *rand.Rand) []step {
		return []step{{within(r, 0, 30), pick(r, deaf, mute, oneWay), pick(r, thePrimary, theMaster, theBackup), disturbance(r), 0}}
	}},
	{"bridge", 2, func(r *rand.Rand) []step {
		return []step{{within(r, 0, 30), bridge, pick(r, thePrimary, theMaster), disturbance(r), 0}}
	}},
	{"join and crash", 4, func(r *rand.Rand) []step {
		return []step{
			{0, slowNew, anybody, 0, pick(r, 0, within(r, 5, 60), within(r, 5, 60))},
			{within(r, 0, 30), join, anybody, 0, 0},
			{within(r, 50, 900), crash, pick(r, thePrimary, thePrimary, anybody), restartAfter(r), 0},
		}
	}},
	{"leave", 2, func(r *rand.Rand) []step {
		return []step{{within(r, 0, 20), join, anybody, 0, 0}, {within(r, 0, 600), leave, pick(r, thePrimary, theMaster, anybody), 0, 0}}
	}},
	{"late grants", 2, func(r *rand.Rand) []step {
		return []step{
			{0, slowIn, thePrimary, 0, within(r, 40, 95)},
			{within(r, 400, 700), pick(r, isolate, pause), thePrimary, within(r, 900, 1600), 0},
		}
	}},
	{"late effects", 2, func(r *rand.Rand) []step {
		return []step{
			{0, slowPair, theOutsider, 0, within(r, 1100, 1700)},
			{within(r, 3000, 4500), crash, theSame, restartAfter(r), 0},
		}
	}},
	{"table lag", 2, func(r *rand.Rand) []step {
		return []step{
			{within(r, 0, 20), join, anybody, 0, 0},
			{within(r, 100, 900), tableLag, thePrimary, within(r, 3000, 6000), 0},
			{within(r, 0, 100), bridge, thePrimary, within(r, 3000, 5000), 0},
		}
	}},
	{"two crashes", 2, func(r *rand.Rand) []step {
		return []step{
			{within(r, 0, 30), crash, pick(r, thePrimary, theMaster), restartAfter(r), 0},
			{within(r, 0, 1500), crash, pick(r, thePrimary, theMaster, theBackup), restartAfter(r), 0},
		}
	}},
}

func within(r *rand.Rand, low, high int) time.Duration {
	return time.Duration(low*1000+r.IntN((high-low)*1000+1)) * time.Microsecond
}

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

// restartAfter is at once, before the old member is removed, or long after.
func restartAfter(r *rand.Rand) time.Duration {
	return pick(r, within(r, 1, 20), within(r, 20, 400), within(r, 1500, 3000))
}

// disturbance is shorter than a lease, longer than it, or long enough for a silent backup to be dropped.
func disturbance(r *rand.Rand) time.Duration {
	return pick(r, within(r, 20, 400), within(r, 600, 1500), within(r, 600, 1500), within(r, 2600, 3500))
}

// planOf draws the schedule of a seed. With only set, all rounds are of that family.
func planOf(seed uint64, only string) plan {
	r := rand.New(rand.NewPCG(seed, 11))
	p := plan{seed: seed, members: pick(r, 3, 3, 3, 4), backups: 1, session: pick(r, 700*time.Millisecond, 700*time.Millisecond, 5*time.Second)}
	p.lease = pick(r, 500*time.Millisecond, 500*time.Millisecond, 300*time.Millisecond)
	for range 1 + r.IntN(2) {
		p.rounds = append(p.rounds, roundOf(r, only))
	}
	for _, x := range p.rounds {
		if x.family == "two crashes" {
			p.members, p.backups = 5, 2
		}
		if x.family == "late effects" || x.family == "silent backup" { // they last too long for a short session
			p.session, p.lease = 5*time.Second, 500*time.Millisecond
		}
	}
	return p
}

func roundOf(r *rand.Rand, only string) round {
	total := 0
	for _, f := range families {
		if only == "" || f.name == only {
			total += f.weight
		}
	}
	at := r.IntN(total)
	for _, f := range families {
		if only != "" && f.name != only {
			continue
		}
		if at -= f.weight; at < 0 {
			return round{f.name, f.make(r)}
		}
	}
	panic("unreachable: the weights sum up to total")
}
