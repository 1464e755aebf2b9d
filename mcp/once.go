package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/api"
)

// Members of the _meta of a tool call and its answer.
const (
	// KeyMeta is a call's idempotency key. If the call is repeated with it within 24
	// hours, by any process, it gets the first answer.
	KeyMeta = "io.github.pawl-work/idempotency-key"
	// ReplayedMeta is true on a replayed answer.
	ReplayedMeta = "io.github.pawl-work/idempotency-replayed"
)

// keyOf returns a call's idempotency key; "" = none.
func keyOf(meta sdk.Meta) (string, error) {
	v, ok := meta[KeyMeta]
	if !ok {
		return "", nil
	}
	key, ok := v.(string)
	if !ok || key == "" || utf8.RuneCountInString(key) > pawl.MaxKeyLen || strings.ContainsRune(key, 0) {
		return "", pawl.Invalid("/_meta/"+strings.ReplaceAll(KeyMeta, "/", "~1"), "is to be a text of 1 to %d characters", pawl.MaxKeyLen)
	}
	return key, nil
}

// caller identifies the caller whose keys are separate from others': by the API key or
// actor, the worker that a call names, the agent's provenance, and its client.
func caller(ctx context.Context, args json.RawMessage, p pawl.Provenance) string {
	c := pawl.CallerOf(ctx)
	// texts always encode
	who, _ := json.Marshal([]string{c.Key, c.ActorType, c.ActorID, agentOf(args, pawl.Caller{}), p.AgentID, p.AgentName})
	return string(who)
}

// once executes a call once for its key: the effect and the answer commit together.
// Refusals and empty checkouts are not stored.
func (s *Server) once(ctx context.Context, t tool, who, key string, args json.RawMessage) (answer json.RawMessage, replayed bool,
	err error) {
	d := &delivery{keyed: true}
	ctx = context.WithValue(ctx, deliveryKey{}, d)
	run := func(ctx context.Context, s *Server) error {
		out, err := t.run(ctx, s, args)
		if err == nil {
			answer, _, err = shown(ctx, t.route, out)
		}
		return err
	}
	if s.opts.WithKey != nil { // the service knows this server's caller, not who calls here
		return answer, false, run(s.opts.WithKey(ctx, "mcp "+digest(who+key)), s)
	}
	keeper, ok := s.svc.(pawl.Idempotent)
	if !ok {
		return nil, false, &pawl.Error{Code: pawl.CodeInvalid, Message: "this server does not support " + KeyMeta +
			" in _meta; send the call without it"}
	}
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	hash, err := pawl.HashOf(args)
	if err != nil {
		return nil, false, err
	}
	d.waits = t.waits(args) // outside the transaction, between two tries: a long call from the first that finds nothing
	within, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	over, begun, taken := func() {}, false, false
	defer func() { over() }()
	begin := pawl.KeyBegin{Scope: scopeOf(t.Name, who), Key: key, RequestHash: hash}
	kept, replayed, err := keeper.Idempotent(within, begin, func(ctx context.Context, svc pawl.Service) (*pawl.Answer, error) {
		answer = nil
		err := run(ctx, &Server{svc: svc, opts: s.opts, sdk: s.sdk})
		if err == nil && !t.nothing(answer) {
			taken = true
			return &pawl.Answer{Code: http.StatusOK, Type: "application/json", Body: answer}, nil
		}
		if err == nil && d.waits && !begun {
			over, err = s.endWith(within, cancel)
			begun = true
		}
		return nil, err
	})
	switch why := access.Ended(within); {
	case err != nil && why != nil:
		return nil, false, why
	case begun && !taken && s.opts.Stopping.Err() != nil && ctx.Err() == nil && cutShort(err):
		answer = json.RawMessage(`{"items":[]}`) // unless the stop came before the look at the key
		kept, replayed, err = api.StoredAnswer(ctx, keeper.Idempotent, begin)
	}
	if err != nil {
		return nil, false, err
	}
	if kept.Code != 0 {
		answer = kept.Body
	}
	return answer, replayed, nil
}

// scopeOf returns the scope of the keys of a caller's calls of a tool.
func scopeOf(tool, who string) string {
	scope := "mcp " + tool + " " + who
	if utf8.RuneCountInString(scope) > pawl.MaxScopeLen || !utf8.ValidString(scope) {
		scope = "mcp " + tool + " " + digest(scope)
	}
	return scope
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// endWith begins a long call, and cancels another context when it ends.
func (s *Server) endWith(ctx context.Context, cancel context.CancelCauseFunc) (over func(), err error) {
	if err := s.opts.Stopping.Err(); err != nil { // ctx goes on: the answer to the key may be stored
		return func() {}, err
	}
	waiting, end, err := s.longCall(ctx)
	if err != nil {
		return func() {}, err
	}
	unhook := context.AfterFunc(waiting, func() { cancel(access.Ended(waiting)) })
	return func() { unhook(); end() }, nil
}

// cutShort reports an error of a call whose context has ended.
func cutShort(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, pawl.ErrUnavailable)
}

// waits reports a checkout that waits for work.
func (t tool) waits(args json.RawMessage) bool {
	var in checkoutIn
	return t.route.Name == "claim" && json.Unmarshal(args, &in) == nil && in.WaitSeconds > 0
}

// nothing reports an empty checkout: a repeated call may find items.
func (t tool) nothing(answer json.RawMessage) bool {
	var taken checkoutOut
	return t.route.Name == "claim" && json.Unmarshal(answer, &taken) == nil && len(taken.Items) == 0
}
