package pawl

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
)

// Spawn creates a child of the handler's task, under its lease. The key is unique among the
// children of the task: a later call with the key, also in a later attempt or in another item
// of the task, returns the child that exists, with Deduplicated set. AwaitChildren waits for
// children.
//
// Each call is a request. A handler that spawns many children may put the loop into a Step that
// returns their ids: later attempts then do not repeat it.
func Spawn(ctx context.Context, key string, task NewTask) (Task, error) {
	h, err := attemptOf(ctx)
	if err != nil {
		return Task{}, err
	}
	return h.SpawnChild(ctx, SpawnCall{Key: key, Task: task})
}

// AwaitChildren waits until enough children of the handler's task have ended, see ChildWait. It
// holds no lease and no worker meanwhile. The first call with a name suspends the item and
// returns ErrSuspended, which the handler returns unchanged. When the wait is over, the next
// attempt runs the handler from its beginning; its steps are replayed, and this AwaitChildren
// returns one result for each of the ids, in their order. The State of a child that had not
// ended then is "".
//
// The results are saved under the name, which is unique within the item: later attempts get the
// same ones. Results of more than 1 MiB together are also saved as name#2, name#3 and so on.
// Waiting for other children under the same name, or otherwise, is ErrInvalid.
//
// With OnFailureFail, the default, the item fails with the code child_failed as soon as too few
// children are left, and the handler does not run again. With the others, the results of
// children that failed have an Error.
func AwaitChildren(ctx context.Context, name string, wait ChildWait) ([]ChildResult, error) {
	h, err := attemptOf(ctx)
	if err != nil {
		return nil, err
	}
	args, err := argsOf(name, []any{wait})
	if err != nil {
		return nil, err
	}
	_, leave, err := h.enter(ctx, name)
	if err != nil {
		return nil, err
	}
	defer leave()
	saved, found, err := h.savedResults(ctx, name, args)
	if found || err != nil {
		return saved, err
	}
	state, err := h.resume(ctx)
	if err != nil {
		return nil, err
	}
	wait.Name = name
	if out, over := wait.results(state.Children); over {
		return out, h.saveResults(ctx, name, args, out)
	}
	if err := h.Suspend(ctx, SuspendCall{Children: &wait}); err != nil {
		return nil, err
	}
	return nil, ErrSuspended
}

// results returns what became of the children of a wait, in the order of ids, and whether the
// wait is over. s is the item's last wait, which may have been another one: children of that
// one count if they are of this one too.
func (w *ChildWait) results(s *ChildrenState) (out []ChildResult, over bool) {
	if s == nil {
		return nil, false
	}
	ended := make(map[string]ChildResult, len(s.Items))
	for _, c := range s.Items {
		ended[c.ID] = c
	}
	distinct := make(map[string]bool, len(w.IDs))
	done, failed := 0, 0
	for _, id := range w.IDs {
		c, there := ended[id]
		if c.ID = id; there && !distinct[id] {
			done++
			if c.State != TaskCompleted {
				failed++
			}
		}
		distinct[id] = true
		out = append(out, c)
	}
	need, good := int(w.Need), done-failed
	if w.Need == NeedAll {
		need = len(distinct)
	}
	if w.OnFailure == OnFailureContinue {
		good = done
	}
	// The other children are cancelled only if that wait was this one.
	cancels := w.OnFailure == OnFailureCancel && s.Name == w.Name && s.Over && s.Total == len(distinct)
	return out, good >= need || cancels && len(distinct)-failed < need
}

// childResults is the snapshot of a wait that is over, or of a further part of its results.
type childResults struct {
	Parts   int           `json:"parts,omitempty"` // checkpoints with its results; 0 in the further ones
	Results []ChildResult `json:"results"`
}

// maxResults bounds the results in one checkpoint; the largest single one fits beside it.
const maxResults = MaxPayloadBytes / 2

// saveResults saves the results of a wait. The first part is saved last: without it, the others
// do not count.
func (h *attemptState) saveResults(ctx context.Context, name string, args stepArgs, all []ChildResult) error {
	parts, size := []childResults{{}}, 0
	for _, c := range all {
		raw, err := json.Marshal(c)
		if err != nil {
			return err
		}
		if size += len(raw) + 1; size > maxResults && len(raw) < size-1 {
			parts, size = append(parts, childResults{}), len(raw)
		}
		last := &parts[len(parts)-1]
		last.Results = append(last.Results, c)
	}
	parts[0].Parts = len(parts)
	for i, part := range slices.Backward(parts) {
		raw, err := json.Marshal(part)
		if err == nil {
			_, err = h.save(ctx, NewCheckpoint{Type: ToolExecuted, Name: partName(name, i), ArgsHash: args.hash, Snapshot: raw,
				Metadata: stepMetadata{Args: args.parts}.json()})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// savedResults returns the results of a wait that were saved, by this attempt or an earlier one.
func (h *attemptState) savedResults(ctx context.Context, name string, args stepArgs) (out []ChildResult, found bool, err error) {
	parts := 1
	for i := 0; i < parts; i++ {
		c, there, err := h.lookup(ctx, partName(name, i))
		if err != nil || !there && i == 0 {
			return nil, false, err
		}
		if !there {
			return nil, false, stepChanged(name, "the checkpoint %q with a part of its results is gone", partName(name, i))
		}
		var part childResults
		if err := replay(c, nil, name, args, &part); err != nil {
			return nil, false, err
		}
		out, parts = append(out, part.Results...), max(parts, part.Parts)
	}
	return out, true, nil
}

// partName is the name of the checkpoint with a part of a wait's results.
func partName(name string, i int) string {
	if i == 0 {
		return name
	}
	return fmt.Sprintf("%s#%d", name, i+1)
}
