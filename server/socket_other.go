//go:build !unix

package server

import (
	"context"
	"errors"
	"net"
)

const longestSocket = 107

// listenSocket returns an error: file modes do not protect sockets on this system.
func listenSocket(context.Context, string) (net.Listener, error) {
	return nil, errors.New("this system does not protect sockets by file modes")
}
