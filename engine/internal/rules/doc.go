// Package rules holds the rules of the engine that need no database: what a valid call is,
// what the registered types require of tasks, plans, parts and results, who may decide,
// and which verbs a state allows. Its functions take values and return values or errors;
// they read no clock and do no I/O. What depends on the time takes it as a parameter.
package rules
