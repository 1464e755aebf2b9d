package server

import (
	"context"
	"net/http"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/internal/idform"
)

const (
	itemPath    = "/v1/items/"
	leasePrefix = "task_"
)

// tokenFinder is a service that knows the claims of tokens of all namespaces: the engine.
type tokenFinder interface {
	FindToken(ctx context.Context, token string) (pawl.TaskToken, error)
}

// byLease returns what the token of a lease permits, in place of an API key: the calls of a claimer
// about its item. leased is false if the request has no such token, or is not about an item.
func (s *server) byLease(r *http.Request) (pass access.Pass, leased bool, err error) {
	token := access.Bearer(r.Header)
	rest, about := strings.CutPrefix(r.URL.Path, itemPath)
	tokens, able := s.svc.(tokenFinder)
	if !about || !able || !strings.HasPrefix(token, leasePrefix) {
		return pass, false, nil
	}
	id, _, _ := strings.Cut(rest, "/")
	id, _, _ = strings.Cut(id, ":")
	t, err := tokens.FindToken(r.Context(), token)
	switch code := pawl.CodeOf(err); {
	case code == pawl.CodeInvalid, code == pawl.CodeNotFound:
		err = &pawl.Error{Code: pawl.CodeUnauthenticated, Message: "this is no token of a lease of this database"}
	case code == pawl.CodeConflict:
		err = &pawl.Error{Code: pawl.CodeLeaseLost, Reason: pawl.ReasonReleased, Message: "the item was handed in or has ended"}
	case err == nil && idform.Call(pawl.Fence{ItemID: id}).ItemID != t.ItemID:
		err = &pawl.Error{Code: pawl.CodeForbidden, Message: "the token is of the lease of another item"}
	}
	if err != nil {
		return pass, true, err
	}
	return access.Leased(t), true, nil
}
