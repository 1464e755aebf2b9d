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
// a snapshot of its own the checkpoint refers to the message.
func (g *LockedItem) Step(ctx context.Context, tx Tx, m *MessageRow, checkpointID string, own Snapshot) (seq int64, err error) {
	until, err := saidUntilStep(ctx, tx, m)
	if err != nil {
		return 0, err
	}
	m.StepNumber++
	if _, err := tx.Exec(ctx, messageSQL["step"], m.ID, m.StepNumber, checkpointID); err != nil {
		return 0, err
	}
	metadata, _ := json.Marshal(map[string]any{"message_id": m.ID, "step_number": m.StepNumber, "offset": m.Offset}) // plain values
	c := SavedCheckpoint{ID: checkpointID, Type: pawl.IterationEnd, Name: Text(fmt.Sprintf("step:%d", m.StepNumber)), Snapshot: own,
		Metadata: Text(metadata), message: Text(m.ID), said: Text(until.String())}
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
