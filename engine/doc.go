// Package engine runs jobs: it keeps them in the distributed maps, coordinates them on the master and runs their tasks on every worker.
package engine
