package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// StepMessages ends steps of open messages; see pawl.Messenger.
func (e *Engine) StepMessages(ctx context.Context, calls []pawl.StepCall) ([]pawl.Result[pawl.CheckpointRef], error) {
	return each(ctx, "step", calls, func(ctx context.Context, c *pawl.StepCall) (pawl.CheckpointRef, error) {
		var f fields
		f.writer(c.MessageFence)
		f.json("/snapshot", c.Snapshot, pawl.MaxPayloadBytes)
		if err := f.err("step"); err != nil {
			return pawl.CheckpointRef{}, err
		}
		ref := pawl.CheckpointRef{ID: e.ids.next("ckp")}
		err := e.writes(ctx, c.MessageFence, "step", func(ctx context.Context, tx store.Tx, g *store.LockedItem, row *store.MessageRow) (err error) {
			if row.StepNumber >= row.MaxSteps {
				return &pawl.Error{Code: pawl.CodeConflict, Op: "step", State: string(row.Status), Allowed: row.Status.Allowed(),
					Message: fmt.Sprintf("the message has made the %d steps that it may: finish it", row.MaxSteps)}
			}
			snapshot := string(c.Snapshot)
			if snapshot == "" {
				if snapshot, err = soFar(ctx, tx, row); err != nil {
					return err
				}
			}
			ref.Sequence, err = g.Step(ctx, tx, row, ref.ID, snapshot)
			return err
		})
		if err == nil {
			e.after(func() { e.watcher.changed(c.MessageID) })
		}
		return ref, err
	})
}

// soFar is the snapshot of a step: all that the message says so far.
func soFar(ctx context.Context, tx store.Tx, row *store.MessageRow) (string, error) {
	chunks, err := store.MessageChunks(ctx, tx, row.ID, row.Cuts)
	if err != nil {
		return "", err
	}
	out := struct {
		StepNumber  int          `json:"step_number"`
		Text        string       `json:"text"`
		Reasoning   string       `json:"reasoning"`
		ToolCalls   []pawl.Chunk `json:"tool_calls"`
		ToolResults []pawl.Chunk `json:"tool_results"`
		Model       string       `json:"model"`
		MaxSteps    int          `json:"max_steps"`
	}{StepNumber: row.StepNumber + 1, ToolCalls: []pawl.Chunk{}, ToolResults: []pawl.Chunk{}, Model: row.Model, MaxSteps: row.MaxSteps}
	var text, reasoning strings.Builder
	for i, c := range chunks {
		if slices.ContainsFunc(row.Cuts, func(cut pawl.Cut) bool { return int64(i) >= cut.From && int64(i) < cut.To }) {
			continue
		}
		switch c.Type {
		case pawl.ChunkText:
			text.WriteString(string(c.Text))
		case pawl.ChunkReasoning:
			reasoning.WriteString(string(c.Text))
		case pawl.ChunkToolCall:
			out.ToolCalls = append(out.ToolCalls, c)
		case pawl.ChunkToolResult:
			out.ToolResults = append(out.ToolResults, c)
		}
	}
	out.Text, out.Reasoning = text.String(), reasoning.String()
	b := asJSON(out)
	if len(b) > pawl.MaxPayloadBytes {
		return "", pawl.Invalid("/snapshot", "is required: what the message says so far has %d bytes, and %d are allowed", len(b), pawl.MaxPayloadBytes)
	}
	return string(b), nil
}
