// Package tidy tests the rules of CONTRIBUTING.md on the source tree: imports, sizes,
// the places of SQL and of the clock, and words.
package tidy
