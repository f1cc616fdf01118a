package node

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"gridnode/imap"
	"gridnode/partition"
)

// The names are registered once each, and what is collected fits what was described.
func TestMapMetrics_FitTheirDescriptions(t *testing.T) {
	l := &life{home: imap.NewHome(imap.HomeConfig{}), host: partition.NewHost(partition.Config{})}
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(newMapCollector(l)); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "gridnode_map_memory_bytes" {
		t.Errorf("without any map: %v, %v", families, err)
	}
}
