package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"
)

// recoverAnswer is the answer to POST /api/v1/cluster/recover.
type recoverAnswer struct {
	Applied bool
	Cluster string
	Says    []string
}

func (a *app) recoverCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "recover",
		Short: "Let survivors go on when the majority of the voters is gone for good",
		Long: `Let survivors go on when the majority of the voters is gone for good.

Run it on the machine of one survivor. Without --force it only says what would happen: who goes on, who is dropped, and what is lost. It is
refused as long as a majority can be reached. Do not use it while the missing members may only be cut off: there would be two clusters.`,
		Args: cobra.NoArgs,
	}
	flags := addClientFlags(cmd)
	force := cmd.Flags().Bool("force", false, "do it, instead of only saying what would happen")
	cluster := cmd.Flags().String("cluster", "", "name of the cluster; needed with --force")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if *force && *cluster == "" {
			return usage(errors.New("--force needs --cluster: the name of the cluster that is to be recovered"))
		}
		return nil
	}
	cmd.RunE = a.withClient(flags, func(cmd *cobra.Command, c *client, _ []string) error {
		body, err := json.Marshal(map[string]any{"force": *force, "cluster": *cluster})
		if err != nil {
			return err
		}
		rep, err := c.do(cmd.Context(), request{method: http.MethodPost, path: "/api/v1/cluster/recover", body: body, repeatable: !*force,
			header: map[string]string{"Content-Type": "application/json"}})
		if err != nil {
			return err
		}
		if flags.json() {
			return printRaw(a.stdout, rep.body)
		}
		var answer recoverAnswer
		if err := json.Unmarshal(rep.body, &answer); err != nil {
			return fmt.Errorf("the answer cannot be read: %w", err)
		}
		head := "cluster %s is recovered\n"
		if !answer.Applied {
			head = "cluster %s could be recovered, with --force --cluster %[1]s\n"
		}
		fmt.Fprintf(a.stdout, head, answer.Cluster)
		for _, line := range answer.Says {
			fmt.Fprintf(a.stdout, "  %s\n", line)
		}
		return nil
	})
	return cmd
}
