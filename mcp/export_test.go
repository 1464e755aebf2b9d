package mcp

import (
	"time"

	"github.com/pawl-work/pawl/api"
)

// ToolRoles are the roles of the table of tools.
func ToolRoles() map[string]api.Role {
	out := map[string]api.Role{}
	for _, t := range tools() {
		out[t.Name] = t.route.Role
	}
	return out
}

// Direct reports whether Pawl's own transport answers a body, and what it reads of it.
func (s *Server) Direct(body []byte) (id, params, tool string, ok bool) {
	call := s.decode(body)
	if call == nil {
		return "", "", "", false
	}
	return string(call.id), string(call.params), call.tool, true
}

// ReportEvery changes the time between two notifications of progress.
func (s *Server) ReportEvery(d time.Duration) *Server {
	s.progressEvery = d
	return s
}

// LeaveToSDK has the SDK's handler answer every request.
func (s *Server) LeaveToSDK() *Server {
	s.own = nil
	return s
}
