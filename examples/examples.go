// Package examples holds the example jobs and their data, so that the program has them wherever it runs.
package examples

import _ "embed" // for the files

// Airports is airports.csv: a heading and 3,376 rows.
//
//go:embed airports.csv
var Airports []byte

// AirportsJob is the job that reads it.
//
//go:embed airports.json
var AirportsJob []byte

// OrdersJob is a job that makes its rows up.
//
//go:embed orders.json
var OrdersJob []byte
