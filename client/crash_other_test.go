//go:build !unix

package client_test

const serveURL = "PAWL_TEST_SERVE"

func beServer(string, string) error { return nil }
