package sweep

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// preview collects what retention would remove, and the position up to which it has
// read.
type preview struct {
	at    map[string]recordCursor
	tasks map[string]bool
}

func (v *preview) note(cursor string, tasks []string, page []entry) {
	for _, id := range tasks {
		v.tasks[id] = true
	}
	if len(page) > 0 {
		v.at[cursor] = recordCursor{Position: page[len(page)-1].ID}
	}
}

// full reports whether more tasks were found than are counted.
func (v *preview) full() bool { return len(v.tasks) > pawl.MaxPrunable }

// cursor returns the position up to which a reader has read the event log.
func (p *pass) cursor(ctx context.Context, tx store.Tx, name string) (recordCursor, error) {
	if p.preview != nil {
		if at, looked := p.preview.at[name]; looked {
			return at, nil
		}
	}
	return cursorOf(ctx, tx, name)
}

// Preview counts what a pass would archive and remove now, in all namespaces. It changes
// nothing.
func (s *Sweeper) Preview(ctx context.Context) (pawl.Prunable, error) {
	p := s.pass(nil)
	p.preview = &preview{map[string]recordCursor{}, map[string]bool{}}
	err := p.settle(ctx)
	if err == nil {
		err = p.retain(ctx)
	}
	if err != nil {
		return pawl.Prunable{}, err
	}
	if p.stats.Errors > 0 {
		return pawl.Prunable{}, errors.New("the tasks to remove could not be read; the log says why")
	}
	ids := slices.Sorted(maps.Keys(p.preview.tasks))
	out := pawl.Prunable{
		Tasks:   int64(min(len(ids), pawl.MaxPrunable)),
		TaskIDs: append([]string{}, ids[:min(len(ids), pawl.MaxPage)]...),
		More:    p.preview.full(),
	}
	err = s.DB.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		for _, step := range p.Steps {
			if err == nil && step.Preview != nil {
				err = step.Preview(ctx, tx, &p.Options, &out)
			}
		}
		return err
	})
	return out, err
}
