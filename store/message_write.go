package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/pawl-work/pawl"
)

// Start records the first sign of life of the locked item.
func (g *LockedItem) Start(ctx context.Context, tx Tx) error { return g.start(ctx, tx) }

// TakeOver makes the locked item's attempt the writer of the message. The chunks of
// another attempt in a step that it did not end are marked as cut off.
func (g *LockedItem) TakeOver(ctx context.Context, tx Tx, m *MessageRow) error {
	if m.Attempt == g.Attempt {
		return nil
	}
	if m.Attempt > 0 {
		m.cuts = CutOff(m.cuts, m.StepOffset, m.Offset, int64(m.Attempt))
	}
	m.Cuts, m.StepOffset, m.Attempt = CutsOf(m.cuts), m.Offset, g.Attempt
	_, err := tx.Exec(ctx, messageSQL["take over"], m.ID, m.Attempt, m.StepOffset, m.cuts)
	return err
}

// Step saves the checkpoint that ends a step of a message and returns its number. Without
// a name it gets that of its number; without a snapshot of its own it refers to the message.
func (g *LockedItem) Step(ctx context.Context, tx Tx, m *MessageRow, c SavedCheckpoint) (seq int64, err error) {
	until, err := saidUntilStep(ctx, tx, m)
	if err != nil {
		return 0, err
	}
	m.StepNumber++
	if _, err := tx.Exec(ctx, messageSQL["step"], m.ID, m.StepNumber, c.ID); err != nil {
		return 0, err
	}
	metadata := map[string]any{}
	if c.Metadata != "" {
		dec := json.NewDecoder(strings.NewReader(string(c.Metadata)))
		dec.UseNumber()
		if err := dec.Decode(&metadata); err != nil {
			return 0, err
		}
	}
	metadata["message_id"], metadata["step_number"], metadata["offset"] = m.ID, m.StepNumber, m.Offset
	merged, err := json.Marshal(metadata)
	if err != nil {
		return 0, err
	}
	if c.Name == "" {
		c.Name = Text(fmt.Sprintf("step:%d", m.StepNumber))
	}
	c.Type, c.Metadata, c.message, c.said = pawl.IterationEnd, Text(merged), Text(m.ID), Text(until.String())
	return g.Save(ctx, tx, c)
}

// CutOff adds the range of chunks that an attempt wrote in a step that it did not end.
func CutOff(cuts Text, from, to, attempt int64) Text {
	if from >= to {
		return cuts
	}
	return Text(strings.TrimSpace(fmt.Sprintf("%s %d-%d-%d", cuts, from, to, attempt)))
}

// CutsOf reads what CutOff wrote.
func CutsOf(text Text) []pawl.Cut {
	var out []pawl.Cut
	for word := range strings.FieldsSeq(string(text)) {
		var c pawl.Cut
		if _, err := fmt.Sscanf(word, "%d-%d-%d", &c.From, &c.To, &c.Attempt); err == nil {
			out = append(out, c)
		}
	}
	return out
}
