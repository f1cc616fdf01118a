// Package node puts the parts of a member together and runs them. It is the only package that knows all others.
package node
