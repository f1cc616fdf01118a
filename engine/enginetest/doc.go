// Package enginetest has what tests of the engine need: an in-process grid of several members with faults to order, plugins whose output can
// be judged, and the contract suite for an [engine.Store].
package enginetest
