//go:build !unix

package engine_test

// beProcess has no part here: the tests with processes need signals.
func beProcess(string) int { return 2 }
