package store

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
)

// ListCheckpoints lists checkpoints: those of a task or item in the order of their number,
// others in the order of creation.
func ListCheckpoints(ctx context.Context, tx Tx, namespace string, q pawl.CheckpointFilter) (pawl.List[pawl.Checkpoint], error) {
	room := NewPageRoom()
	l, err := PagesIn(room, q.Page, func(c *CheckpointRow) (int, error) { return c.bytes(), nil }, checkpointCursor(q),
		func(p pawl.Page) (pawl.List[CheckpointRow], error) {
			q.Page = p
			return listCheckpoints(ctx, tx, namespace, q)
		})
	var refs *checkpointRefs
	if err == nil && q.Refs {
		refs, err = readRefs(ctx, tx, q, l.Items)
	}
	if err == nil && !q.Brief {
		err = ReadSnapshots(ctx, tx, l.Items)
	}
	out := pawl.List[pawl.Checkpoint]{Items: make([]pawl.Checkpoint, len(l.Items)), Next: l.Next}
	for i := range l.Items {
		out.Items[i] = l.Items[i].Checkpoint
		if q.Brief {
			out.Items[i].Snapshot = nil
		}
	}
	if err == nil && refs != nil {
		err = refs.give(ctx, tx, out.Items, room, q.Brief)
	}
	return out, err
}

// checkpointColumns returns the statement that the conditions of a list follow.
func checkpointColumns(brief bool) string {
	if brief {
		return readSQL["checkpoints in brief"]
	}
	return readSQL["checkpoints"]
}

// checkpointRefs are the checkpoints that those of a page refer to, without their snapshots where
// these are stored elsewhere.
type checkpointRefs struct {
	names  [][]string // of each checkpoint of the page; a name that ends with * is a prefix
	rows   []CheckpointRow
	of     map[string][]int // the places in rows, by the name or prefix
	cut    map[string]bool  // prefixes of which not all were read
	placed map[string]int   // the place in rows, by the id of the checkpoint
}

// refsOf returns the names that a checkpoint refers to. Metadata that says it in another form
// refers to none.
func refsOf(c *CheckpointRow) []string {
	var said struct {
		Refs []string `json:"refs"`
	}
	if len(c.Metadata) == 0 || json.Unmarshal(c.Metadata, &said) != nil {
		return nil
	}
	return said.Refs[:min(len(said.Refs), pawl.MaxRefs)]
}

// maxRefPrefixes bounds the prefixes of a page, each of which is looked up by a statement.
const maxRefPrefixes = 100

// readRefs finds the checkpoints that the rows of one task refer to: those given by name with one
// statement, those given by a prefix with one for each prefix.
func readRefs(ctx context.Context, tx Tx, q pawl.CheckpointFilter, page []CheckpointRow) (*checkpointRefs, error) {
	r := &checkpointRefs{names: make([][]string, len(page)), of: map[string][]int{}, cut: map[string]bool{}, placed: map[string]int{}}
	names, prefixes := map[string]bool{}, map[string]bool{}
	for i := range page {
		r.names[i] = refsOf(&page[i])
		for _, name := range r.names[i] {
			switch _, isPrefix := strings.CutSuffix(name, "*"); {
			case !isPrefix && len(names) < pawl.MaxRefs:
				names[name] = true
			case isPrefix && len(prefixes) < maxRefPrefixes:
				prefixes[name] = true
			default:
				r.cut[name] = !names[name] && !prefixes[name]
			}
		}
	}
	if len(names) > 0 {
		err := r.read(ctx, tx, func(c *CheckpointRow) string { return c.Name }, checkpointColumns(q.Brief)+"\n"+checkpointSQL["newest of names"],
			TaskID(q.TaskID), List(slices.Sorted(maps.Keys(names))), pawl.MaxRefs)
		if err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(prefixes)) {
		from, to := nameRange(strings.TrimSuffix(name, "*"))
		err := r.read(ctx, tx, func(*CheckpointRow) string { return name }, checkpointColumns(q.Brief)+"\n"+checkpointSQL["newest of range"],
			TaskID(q.TaskID), from, to, pawl.MaxRefs+1)
		if err != nil {
			return nil, err
		}
		if of := r.of[name]; len(of) > pawl.MaxRefs {
			r.of[name], r.cut[name] = of[:pawl.MaxRefs], true
		}
	}
	return r, nil
}

func (r *checkpointRefs) read(ctx context.Context, tx Tx, as func(c *CheckpointRow) string, query string, args ...any) error {
	rows, err := scanCheckpoints(ctx, tx, Rows.Scan, query, args...)
	if err != nil {
		return err
	}
	for i := range rows {
		at, there := r.placed[rows[i].ID]
		if !there {
			at = len(r.rows)
			r.rows, r.placed[rows[i].ID] = append(r.rows, rows[i]), at
		}
		name := as(&rows[i])
		r.of[name] = append(r.of[name], at)
	}
	return nil
}

// give sets the references of the checkpoints of a page, as far as the page has room for them. It
// reads the snapshots of those that it sets.
func (r *checkpointRefs) give(ctx context.Context, tx Tx, page []pawl.Checkpoint, room *PageRoom, brief bool) error {
	of, wanted := make([][]int, len(page)), map[int]bool{}
	for i := range page {
		var all []int
		for _, name := range r.names[i] {
			all = append(all, r.of[name]...)
			page[i].RefsLeft = page[i].RefsLeft || r.cut[name]
		}
		slices.SortFunc(all, func(a, b int) int { return cmp.Compare(r.rows[a].Sequence, r.rows[b].Sequence) })
		for _, at := range slices.Compact(all) {
			n := r.rows[at].bytes()
			if n > room.left || len(of[i]) == pawl.MaxRefs {
				page[i].RefsLeft = true
				break
			}
			room.Take(n)
			of[i], wanted[at] = append(of[i], at), true
		}
	}
	for at := range wanted {
		if brief {
			r.rows[at].Snapshot = nil
		} else if err := ReadSnapshots(ctx, tx, r.rows[at:at+1]); err != nil {
			return err
		}
	}
	for i := range page {
		for _, at := range of[i] {
			page[i].Refs = append(page[i].Refs, r.rows[at].Checkpoint)
		}
	}
	return nil
}

// bytes returns what a checkpoint takes of a page.
func (c *CheckpointRow) bytes() int { return c.SnapshotSize() + len(c.Metadata) }
