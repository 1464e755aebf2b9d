package mcp

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// A client without durable tasks is asked what a task asks as part of its own call, if it
// declares elicitation: the call is answered with the questions, and the client makes it again
// with the answers. In a session of an older revision the SDK asks the client directly.

// askable reports whether the client of a call can be asked as part of it.
func askable(req *sdk.CallToolRequest) bool {
	caps := req.ClientCapabilities()
	return caps != nil && !extended(caps) && caps.Elicitation != nil && (caps.Elicitation.Form != nil || caps.Elicitation.URL == nil)
}

// asks returns those questions of a task that the client of a call may answer and has not
// answered in this call.
func (s *Server) asks(ctx context.Context, req *sdk.CallToolRequest, d *durable) sdk.InputRequestMap {
	if !askable(req) || len(req.Params.InputResponses) > 0 && req.ProtocolVersion() < sessionless { // there the SDK asks once in a call
		return nil
	}
	open := maps.Clone(d.InputRequests)
	maps.DeleteFunc(open, func(key string, _ sdk.InputRequest) bool {
		role := api.Submitter
		if key == approval {
			role = api.Approver
		}
		_, answered := req.Params.InputResponses[key]
		return answered || s.allows(ctx, role) != nil
	})
	return open
}

// takeAnswers takes the answers that a call carries to the questions of a task.
func (s *Server) takeAnswers(ctx context.Context, req *sdk.CallToolRequest, taskID string) error {
	p := durableParams{TaskID: taskID, InputResponses: map[string]json.RawMessage{}}
	for key, said := range req.Params.InputResponses {
		raw, err := json.Marshal(said)
		if err != nil {
			return pawl.Invalid("/inputResponses/"+key, "is no answer: %v", err)
		}
		p.InputResponses[key] = raw
	}
	if len(p.InputResponses) == 0 {
		return nil
	}
	return s.answerDurable(ctx, &p)
}

// requestKey is the key of a call in the context of work_wait, if its client can be asked.
type requestKey struct{}

func requestOf(ctx context.Context) *sdk.CallToolRequest {
	req, _ := ctx.Value(requestKey{}).(*sdk.CallToolRequest)
	return req
}

// questions returns what a call of work_wait asks its client about a task.
func (s *Server) questions(ctx context.Context, t pawl.Task) (sdk.InputRequestMap, error) {
	req := requestOf(ctx)
	if req == nil || t.State != pawl.TaskSubmitted && !slices.Contains(atWork, t.State) {
		return nil, nil
	}
	d, err := s.readDurable(ctx, &durableParams{TaskID: t.ID})
	if err != nil {
		return nil, err
	}
	return s.asks(ctx, req, d), nil
}
