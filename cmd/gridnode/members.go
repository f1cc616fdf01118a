package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// memberList is the answer to GET /api/v1/members.
type memberList struct {
	Members []struct {
		Name    string
		Address string
		HTTP    string
		Master  bool
		State   string
		Roles   []string
		Owned   int
		Backups int
	}
}

// clusterInfo is the answer to GET /api/v1/cluster.
type clusterInfo struct {
	Name           string
	Partitions     int
	BackupCount    int // wanted for each partition
	Backups        int // that each partition has at least
	DataMembers    int
	Safe           bool
	LostPartitions int

	Moves, MovesWaiting, HandOvers, Drops int // that are under way, or owed
}

func (a *app) membersCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "members", Short: "List the members of the cluster", Args: cobra.NoArgs}
	flags := addClientFlags(cmd)
	cmd.RunE = a.withClient(flags, func(cmd *cobra.Command, c *client, _ []string) error {
		var list memberList
		raw, err := c.get(cmd.Context(), "/api/v1/members", &list)
		if err != nil {
			return err
		}
		if flags.json() {
			return printRaw(a.stdout, raw)
		}
		var cluster clusterInfo
		if _, err := c.get(cmd.Context(), "/api/v1/cluster", &cluster); err != nil {
			return err
		}
		rows := [][]string{{"NAME", "ADDRESS", "HTTP", "ROLE", "STATE", "ROLES", "OWNED", "BACKUPS"}}
		for _, m := range list.Members {
			role := "member"
			if m.Master {
				role = "master"
			}
			rows = append(rows, []string{m.Name, m.Address, m.HTTP, role, strings.ToUpper(m.State), strings.Join(m.Roles, ","),
				strconv.Itoa(m.Owned), strconv.Itoa(m.Backups)})
		}
		if err := table(a.stdout, rows); err != nil {
			return err
		}
		_, err = fmt.Fprintln(a.stdout, cluster.line())
		return err
	})
	return cmd
}

// owed is how many moves are under way or to come.
func (c clusterInfo) owed() int { return c.Moves + c.MovesWaiting + c.HandOvers + c.Drops }

// line says in one line how well the data is kept.
func (c clusterInfo) line() string {
	partitions, kept := plural(c.Partitions, "partition"), plural(c.Backups, "backup")+" each"
	if c.Backups < c.BackupCount {
		kept = fmt.Sprintf("%d of %s each", c.Backups, plural(c.BackupCount, "backup"))
	}
	few := "" // as safe as it is, it cannot be as safe as it should
	if c.DataMembers <= c.BackupCount {
		few = plural(c.DataMembers, "data member")
	}
	switch {
	case c.LostPartitions > 0:
		return fmt.Sprintf("%s, %s, %d LOST", partitions, kept, c.LostPartitions)
	case c.DataMembers == 0:
		return fmt.Sprintf("%s, no data members: nothing can be stored", partitions)
	case !c.Safe && c.owed() == 0:
		return fmt.Sprintf("%s, %s, cluster not known to be safe: a member or the master does not seem to be there", partitions, kept)
	case !c.Safe:
		return fmt.Sprintf("%s, %s, cluster not safe yet (%s)", partitions, kept, plural(c.owed(), "move"))
	case few != "" && c.Backups == 0:
		return fmt.Sprintf("%s, no backups: %s", partitions, few)
	case few != "":
		return fmt.Sprintf("%s, %s: %s", partitions, kept, few)
	case c.BackupCount == 0:
		return fmt.Sprintf("%s, no backups: none are wanted", partitions)
	}
	return fmt.Sprintf("%s, %s, cluster safe", partitions, kept)
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
