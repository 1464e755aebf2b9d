// Package effects decides about calls to the outside: who may send one, what a report about it
// means, and what a person may say about one that is unknown. It changes rows of store; the engine
// opens the transaction, as for all verbs, and the statements are in store/effect.sql.
//
// No function here sends anything. The answer Send of Open is committed before its caller sends.
package effects
