// The clients example: a map of people, with Hazelcast's Go client.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/hazelcast/hazelcast-go-client"
	"github.com/hazelcast/hazelcast-go-client/predicate"
	"github.com/hazelcast/hazelcast-go-client/serialization"
)

func main() {
	if err := run(context.Background(), append(os.Args[1:], "127.0.0.1:5701")[0]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, address string) error {
	config := hazelcast.Config{}
	config.Cluster.Name = "dev"
	config.Cluster.Network.SetAddresses(address)
	config.Logger.Level = "error"
	client, err := hazelcast.StartNewClientWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() { _ = client.Shutdown(ctx) }()
	people, err := client.GetMap(ctx, "people")
	if err != nil {
		return err
	}
	if err := people.Set(ctx, "ann", serialization.JSON(`{"age": 41, "city": "Oslo"}`)); err != nil {
		return err
	}
	ann, err := people.Get(ctx, "ann")
	if err != nil {
		return err
	}
	older, err := people.GetKeySetWithPredicate(ctx, predicate.Greater("age", 40))
	fmt.Printf("%s %v\n", ann, older)
	return err
}
