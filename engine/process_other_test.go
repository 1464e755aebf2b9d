//go:build !unix

package engine_test

// beProcess does nothing here: the tests with processes need signals.
func beProcess(string) int { return 2 }
