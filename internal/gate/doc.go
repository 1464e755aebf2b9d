// Package gate stands between agents and the services that they call. A call that is an effect is
// recorded before it is sent, is sent once, with credentials that the agent never sees, and its answer
// is recorded before it is returned. A repetition gets the recorded answer.
//
// docs/effects.md describes its configuration and its answers.
package gate
