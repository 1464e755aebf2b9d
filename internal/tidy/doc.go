// Package tidy holds the rules of the house as tests over the source tree: who
// may import whom, how long a file may be, where SQL and the clock are, which
// words are not used. CONTRIBUTING.md says why; a rule that nobody checks is an
// opinion.
package tidy
