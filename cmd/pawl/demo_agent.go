package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"slices"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
)

// scribe is one agent of demo --agents: a process that knows Pawl by its MCP
// tools alone, which a `pawl mcp` of its own gives it. What a model would say
// is scripted.
type scribe struct {
	session *sdk.ClientSession
	name    string
	typ     string
	dies    bool // stands still in the middle of its first item, to be killed
	learnt  bool // that a line begins with slashes
	tell    func(told)
}

func (a *app) demoAgentCmd() *cobra.Command {
	var s scribe
	cmd := a.verb("demo-agent", "An agent of the demo", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
		ctx, stop := context.WithCancel(cmd.Context())
		defer stop()
		go func() { // the parent's end of stdin is the parent's life
			for in := bufio.NewScanner(a.stdin); in.Scan(); {
				continue
			}
			stop()
		}()
		self, err := os.Executable()
		if err != nil {
			return err
		}
		server := exec.Command(self, "mcp", "--log", "warn", "--namespace", a.cfg.Namespace, "--schema", a.cfg.Schema)
		server.Args[0], server.Env, server.Stderr = os.Args[0], a.env, os.Stderr
		s.session, err = sdk.NewClient(&sdk.Implementation{Name: s.name, Version: "1"}, nil).Connect(ctx, &sdk.CommandTransport{Command: server}, nil)
		if err != nil {
			return err
		}
		s.tell = func(t told) { _ = a.encode(t, false) } // a parent that is gone hears nothing
		err = s.work(ctx)
		if ctx.Err() != nil {
			err = nil
		}
		return errors.Join(err, s.session.Close())
	})
	cmd.Hidden = true
	f := cmd.Flags()
	f.StringVar(&s.name, "id", "", "its name")
	f.StringVar(&s.typ, "type", "", "the type of its work")
	f.BoolVar(&s.dies, "dies", false, "half-way")
	return cmd
}

// work checks items out and does them, until nobody wants any more.
func (s *scribe) work(ctx context.Context) error {
	for ctx.Err() == nil {
		var out struct{ Items []pawl.Lease }
		if err := s.call(ctx, "work_checkout", map[string]any{"worker_id": s.name, "types": []string{s.typ}, "wait_seconds": 1}, &out); err != nil {
			return err
		}
		for _, l := range out.Items {
			if err := s.do(ctx, l); err != nil && !errors.Is(err, pawl.ErrLeaseLost) {
				return err
			}
		}
	}
	return nil
}

// do hands in a line for every file of an item that has none yet, or another
// one where the last were sent back, and then the whole.
func (s *scribe) do(ctx context.Context, l pawl.Lease) error {
	var in order
	if err := json.Unmarshal(l.Input, &in); err != nil {
		return err
	}
	var there struct{ Items []pawl.ItemPart }
	if err := s.call(ctx, "work_list_parts", map[string]any{"item_id": l.ID, "key": "line"}, &there); err != nil {
		return err
	}
	sealed := slices.ContainsFunc(l.Reasons, func(c pawl.Complaint) bool { return c.Code == unsealed })
	for i, path := range in.Files {
		raw, err := os.ReadFile(under(in.Folder, path))
		if err != nil {
			return err
		}
		line := describe(path, raw, sealed)
		if slices.ContainsFunc(there.Items, func(p pawl.ItemPart) bool {
			var had firstLine
			return p.Seq != nil && *p.Seq == i && p.Status == pawl.PartValidated && json.Unmarshal(p.Payload, &had) == nil && had.Line == slashes+line
		}) {
			s.tell(told{Step: "replayed"})
			continue
		}
		if s.dies && i == len(in.Files)/2 {
			s.tell(told{Gate: "kill", Item: l.ID, Attempt: l.Attempt})
			select {} // the lease is kept until the parent's SIGKILL
		}
		if err := s.part(ctx, l, i, firstLine{path, line}, hashOf(raw)); err != nil {
			return err
		}
		s.tell(told{Step: "ran"})
	}
	return s.call(ctx, "work_finalize", s.under(l, "evidence", map[string]any{"files": len(in.Files)}, "notes", "done by "+s.name), nil)
}

// part hands one line in. Refused, it does as the answer says, and knows it from
// then on.
func (s *scribe) part(ctx context.Context, l pawl.Lease, seq int, line firstLine, seen string) error {
	if s.learnt {
		line.Line = slashes + line.Line
	}
	err := s.call(ctx, "work_submit_part", s.under(l, "key", "line", "seq", seq, "payload", line, "evidence", map[string]any{"sha256": seen}), nil)
	if fields := pawl.FieldsOf(err); !s.learnt && len(fields) == 1 && fields[0].Pointer == "/payload/line" {
		s.tell(told{Refused: fields[0].Pointer + " " + fields[0].Message})
		s.learnt = true
		return s.part(ctx, l, seq, line, seen)
	}
	return err
}

// under are the arguments of a call that carries a lease.
func (s *scribe) under(l pawl.Lease, more ...any) map[string]any {
	out := map[string]any{"item_id": l.ID, "worker_id": s.name, "attempt": l.Attempt}
	for i := 0; i < len(more); i += 2 {
		out[more[i].(string)] = more[i+1]
	}
	return out
}

// call calls a tool. A refusal is the error that it tells of.
func (s *scribe) call(ctx context.Context, tool string, in map[string]any, out any) error {
	res, err := s.session.CallTool(ctx, &sdk.CallToolParams{Name: tool, Arguments: in})
	if err != nil {
		return err
	}
	var text string
	for _, c := range res.Content {
		if t, ok := c.(*sdk.TextContent); ok {
			text += t.Text
		}
	}
	if !res.IsError {
		if out == nil {
			return nil
		}
		return json.Unmarshal([]byte(text), out)
	}
	raw, err := json.Marshal(res.StructuredContent)
	if err != nil {
		return err
	}
	var told struct {
		Problem struct {
			Code   pawl.Code
			Errors []pawl.Field
			Reason string
		}
	}
	if err := json.Unmarshal(raw, &told); err != nil {
		return err
	}
	return &pawl.Error{Code: told.Problem.Code, Op: tool, Message: text, Fields: told.Problem.Errors, Reason: told.Problem.Reason}
}
