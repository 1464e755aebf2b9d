package mcpgate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/gate"
)

// Tool says what becomes of calls of a tool.
type Tool struct {
	Deny       bool   // it is not offered, and refused
	Read       bool   // it changes nothing: its calls are no effects
	Repeatable bool   // the server recognises an equal call, so that an unknown one is sent again
	Approve    bool   // a person approves each call
	Budget     string // the budget that each call costs; "" = none
	Amount     int64  // what it costs
	AmountAt   string // in place of Amount: a JSON Pointer into the call's arguments, where a number above 0 stands
	// Charge are JSON Pointers into the result: the sum of the numbers there is what the call has cost, at most Amount;
	// empty = it has cost that.
	Charge  []string
	Changed string // what becomes of a call that no earlier attempt made: ask (default) or new; see docs/effects.md
}

// checkTools refuses rules that cannot work.
func checkTools(tools map[string]Tool) error {
	for pattern, t := range tools {
		at := "/gate/tools/" + pattern
		if _, err := path.Match(pattern, ""); err != nil {
			return pawl.Invalid(at, "is not the name of a tool, or a pattern with *")
		}
		priced := t.Amount > 0 && t.AmountAt == "" || t.Amount == 0 && strings.HasPrefix(t.AmountAt, "/")
		if t.Budget == "" && (t.Amount != 0 || t.AmountAt != "") || t.Budget != "" && !priced {
			return pawl.Invalid(at+"/amount", "must be a number above 0, or a JSON Pointer into the arguments, and go with a budget")
		}
		if len(t.Charge) > 0 && (t.Budget == "" || !gate.CheckCharge(t.Charge)) {
			return pawl.Invalid(at+"/charge", "must be JSON Pointers into the result, at most 10, and go with a budget")
		}
		if t.Changed != "" && t.Changed != "ask" && t.Changed != "new" {
			return pawl.Invalid(at+"/changed", "must be ask or new")
		}
	}
	return nil
}

// rule returns the rule of a tool: of its name, or else of the longest pattern that fits, of several the first by name.
func (p *Proxy) rule(name string) Tool {
	if t, is := p.Tools[name]; is {
		return t
	}
	best := ""
	for pattern := range p.Tools {
		if fits(pattern, name) && (len(pattern) > len(best) || len(pattern) == len(best) && pattern < best) {
			best = pattern
		}
	}
	return p.Tools[best]
}

// fits reports whether a pattern, which was checked, fits the name of a tool. In a path a * ends at a slash. In a name a
// slash is a character as others: else a server could choose names that no rule fits.
func fits(pattern, name string) bool {
	plain := strings.NewReplacer("/", "\x00")
	is, _ := path.Match(plain.Replace(pattern), plain.Replace(name))
	return is
}

// hints are the annotations of a tool that say whether it changes something.
type hints struct {
	ReadOnlyHint   bool `json:"readOnlyHint"`
	IdempotentHint bool `json:"idempotentHint"`
}

// learn keeps the hints of the tools in a list, and returns the list without those that are denied.
func (p *Proxy) learn(result json.RawMessage) json.RawMessage {
	var list map[string]json.RawMessage
	var tools []json.RawMessage
	if json.Unmarshal(result, &list) != nil || json.Unmarshal(list["tools"], &tools) != nil {
		return result
	}
	kept := []json.RawMessage{}
	for _, raw := range tools {
		var t struct {
			Name        string `json:"name"`
			Annotations hints  `json:"annotations"`
		}
		if json.Unmarshal(raw, &t) != nil || p.rule(t.Name).Deny {
			continue
		}
		kept = append(kept, raw)
		p.mu.Lock()
		p.hints[t.Name] = t.Annotations
		p.mu.Unlock()
	}
	if len(kept) == len(tools) {
		return result
	}
	list["tools"] = encode(kept)
	return encode(list)
}

// maxPages bounds the pages of a list of tools.
const maxPages = 100

// hintsOf returns the hints of a tool. It asks the server for its list if they are not known. A tool that is
// not in the list changes something.
func (p *Proxy) hintsOf(ctx context.Context, c *toolCall) hints {
	cursor := ""
	for range maxPages {
		p.mu.Lock()
		h, known := p.hints[c.Name]
		p.mu.Unlock()
		if known {
			return h
		}
		result, err := p.listTools(ctx, c.Meta, cursor)
		if err != nil {
			p.Log.WarnContext(ctx, "the server does not list its tools: the call counts as one that changes something", "tool", c.Name, "error", err)
			return hints{}
		}
		p.learn(result)
		var next struct {
			Next string `json:"nextCursor"`
		}
		if json.Unmarshal(result, &next) != nil || next.Next == "" {
			break
		}
		cursor = next.Next
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hints[c.Name]
}

// listTools asks the server for a page of its tools. meta is that of the client's own call: the newer
// revision wants its members in each request.
func (p *Proxy) listTools(ctx context.Context, meta map[string]json.RawMessage, cursor string) (json.RawMessage, error) {
	params := map[string]any{}
	for name, value := range meta {
		if strings.HasPrefix(name, "io.modelcontextprotocol/") {
			more, _ := params["_meta"].(map[string]any)
			if more == nil {
				more = map[string]any{}
			}
			more[name] = value
			params["_meta"] = more
		}
	}
	if cursor != "" {
		params["cursor"] = cursor
	}
	p.mu.Lock()
	p.asked++
	id := encode(p.own + strconv.Itoa(p.asked))
	answered := make(chan *message, 1)
	p.flights[idOf(id)] = &flight{own: answered}
	p.mu.Unlock()
	defer p.land(idOf(id))
	text := encode(map[string]any{"jsonrpc": "2.0", "id": json.RawMessage(id), "method": "tools/list", "params": params})
	m, err := readMessage(text)
	if err == nil {
		err = p.server.Send(ctx, &m)
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case m := <-answered:
		if m == nil || m.Result == nil {
			return nil, errors.New("it has no result")
		}
		return m.Result, nil
	}
}

// refusal is the answer of a call that was not made. Text is for the model, _meta for programs.
func refusal(err error) map[string]any {
	var e *pawl.Error
	if !errors.As(err, &e) {
		e = &pawl.Error{Code: pawl.CodeInternal, Message: err.Error()}
	}
	problem := map[string]any{"code": e.Code, "detail": e.Message}
	for name, value := range map[string]string{"effect_id": e.EffectID, "state": e.State, "reason": e.Reason} {
		if value != "" {
			problem[name] = value
		}
	}
	return map[string]any{"isError": true, "content": []any{map[string]any{"type": "text", "text": fmt.Sprintf("%s (%s)", e.Message, e.Code)}},
		"_meta": map[string]any{ProblemMeta: problem}}
}
