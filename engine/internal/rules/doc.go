// Package rules holds the rules that the engine and its rooms share and that need no database: Fields, which collects what is
// wrong with a call, the checks of values, and which verbs a fence and a state allow. Its functions take values and return
// values or errors; they read no clock and do no I/O. What depends on the time takes it as a parameter.
package rules
