package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pawl-work/pawl"
)

// agent is one agent of demo --agents. It uses Pawl through the tools of its own
// `pawl mcp` only. A script takes the place of a model.
type agent struct {
	session *sdk.ClientSession
	name    string
	typ     string
	killed  bool // stops in the middle of its first item, to be killed
	learned bool // that a line begins with slashes
	report  func(report)
}

// AgentOptions configure an agent process of the demo.
type AgentOptions struct {
	Name, Type        string
	Killed            bool // stop in the middle of the first item, to be killed
	Namespace, Schema string
	Env               []string // of the agent's `pawl mcp`
	Stdin             io.Reader
	Stdout, Stderr    io.Writer
}

// Act runs an agent process: it starts a `pawl mcp`, reports to the parent on Stdout
// and ends with Stdin.
func Act(ctx context.Context, o AgentOptions) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() { // the parent closes stdin when it ends
		for in := bufio.NewScanner(o.Stdin); in.Scan(); {
			continue
		}
		stop()
	}()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	server := exec.Command(self, "mcp", "--log", "warn", "--namespace", o.Namespace, "--schema", o.Schema)
	server.Args[0], server.Env, server.Stderr = os.Args[0], o.Env, o.Stderr
	s := agent{name: o.Name, typ: o.Type, killed: o.Killed, report: func(t report) { _ = encode(o.Stdout, t) }} // the parent may have ended
	s.session, err = sdk.NewClient(
		&sdk.Implementation{Name: s.name, Version: "1"},
		nil,
	).Connect(
		ctx,
		&sdk.CommandTransport{Command: server},
		nil,
	)
	if err != nil {
		return err
	}
	err = s.work(ctx)
	if ctx.Err() != nil {
		err = nil
	}
	return errors.Join(err, s.session.Close())
}

// work claims and handles items until ctx ends.
func (s *agent) work(ctx context.Context) error {
	for ctx.Err() == nil {
		var out struct{ Items []pawl.Lease }
		if err := s.call(ctx, "work_checkout", map[string]any{"worker_id": s.name, "types": []string{s.typ}, "wait_seconds": 1},
			&out); err != nil {
			return err
		}
		for _, l := range out.Items {
			if err := s.handle(ctx, l); err != nil && !errors.Is(err, pawl.ErrLeaseLost) {
				return err
			}
		}
	}
	return nil
}

// handle submits a line for every file of an item that has none yet, or a new one where
// the last was rejected, and then finalizes the item.
func (s *agent) handle(ctx context.Context, l pawl.Lease) error {
	var in order
	if err := json.Unmarshal(l.Input, &in); err != nil {
		return err
	}
	var there struct{ Items []pawl.ItemPart }
	if err := s.call(ctx, "work_list_parts", map[string]any{"item_id": l.ID, "key": "line"}, &there); err != nil {
		return err
	}
	sealed := slices.ContainsFunc(l.Reasons, func(c pawl.Complaint) bool { return c.Code == missingHash })
	for i, path := range in.Files {
		raw, err := os.ReadFile(under(in.Folder, path))
		if err != nil {
			return err
		}
		line := describe(path, raw, sealed)
		if slices.ContainsFunc(there.Items, func(p pawl.ItemPart) bool {
			var had firstLine
			return p.Seq != nil && *p.Seq == i && p.Status == pawl.PartValidated && json.Unmarshal(p.Payload, &had) == nil &&
				had.Line == slashes+line
		}) {
			s.report(report{Step: "replayed"})
			continue
		}
		if s.killed && i == len(in.Files)/2 {
			s.report(report{Pause: "kill", Item: l.ID, Attempt: l.Attempt})
			select {} // the lease is kept until the parent's SIGKILL
		}
		if err := s.part(ctx, l, i, firstLine{path, line}, hashOf(raw)); err != nil {
			return err
		}
		s.report(report{Step: "ran"})
	}
	return s.call(ctx, "work_finalize", s.leaseArgs(l, "evidence", map[string]any{"files": len(in.Files)}, "notes", "done by "+s.name), nil)
}

// part submits one line. After the first refusal it does as the answer says.
func (s *agent) part(ctx context.Context, l pawl.Lease, seq int, line firstLine, seen string) error {
	if s.learned {
		line.Line = slashes + line.Line
	}
	err := s.call(
		ctx,
		"work_submit_part",
		s.leaseArgs(l, "key", "line", "seq", seq, "payload", line, "evidence", map[string]any{"sha256": seen}),
		nil,
	)
	if fields := pawl.FieldsOf(err); !s.learned && len(fields) == 1 && fields[0].Pointer == "/payload/line" {
		s.report(report{Refused: fields[0].Pointer + " " + fields[0].Message})
		s.learned = true
		return s.part(ctx, l, seq, line, seen)
	}
	return err
}

// leaseArgs returns the arguments of a call under a lease.
func (s *agent) leaseArgs(l pawl.Lease, more ...any) map[string]any {
	out := map[string]any{"item_id": l.ID, "worker_id": s.name, "attempt": l.Attempt}
	for i := 0; i < len(more); i += 2 {
		out[more[i].(string)] = more[i+1]
	}
	return out
}

// call calls a tool. It returns a refusal as a *pawl.Error.
func (s *agent) call(ctx context.Context, tool string, in map[string]any, out any) error {
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
	var answer struct {
		Problem struct {
			Code   pawl.Code
			Errors []pawl.Field
			Reason string
		}
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return err
	}
	return &pawl.Error{Code: answer.Problem.Code, Op: tool, Message: text, Fields: answer.Problem.Errors, Reason: answer.Problem.Reason}
}
