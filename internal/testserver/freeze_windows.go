package testserver

import "errors"

var errFreeze = errors.New("servers cannot be frozen on Windows")

// Freeze returns an error on Windows.
func (s *Server) Freeze() error { return errFreeze }

// Thaw does nothing on Windows, where no server is frozen.
func (s *Server) Thaw() error { return nil }
