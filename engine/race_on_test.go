//go:build race

package engine

const underRace = true
