package engine

import (
	"context"
	"slices"

	"github.com/pawl-work/pawl"
)

// createChildren inserts drafts of children, those of one parent in one transaction. If the
// parent is refused, so are they all.
func (e *Engine) createChildren(ctx context.Context, out []pawl.Result[pawl.Task], drafts []draft) error {
	for len(drafts) > 0 {
		parent := *drafts[0].task.ParentID
		same := slices.DeleteFunc(slices.Clone(drafts), func(d draft) bool { return *d.task.ParentID != parent })
		drafts = slices.DeleteFunc(drafts, func(d draft) bool { return *d.task.ParentID == parent })
		err := e.createTogether(ctx, out, same)
		switch pawl.CodeOf(err) {
		case pawl.CodeNotFound, pawl.CodeConflict, pawl.CodeLimit:
			for i := range same {
				out[same[i].ord].Err = err
			}
		default:
			if err != nil {
				return err
			}
		}
	}
	return nil
}
