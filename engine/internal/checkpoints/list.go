package checkpoints

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// List lists checkpoints: those of a task or item in the order of their number,
// others in the order of creation.
func List(ctx context.Context, tx store.Tx, namespace string, q pawl.CheckpointFilter) (pawl.List[pawl.Checkpoint], error) {
	room := store.NewPageRoom()
	l, err := store.PagesIn(room, q.Page, func(c *store.CheckpointRow) (int, error) { return bytesOf(c), nil }, cursorOf(q),
		func(p pawl.Page) (pawl.List[store.CheckpointRow], error) {
			q.Page = p
			return pageOf(ctx, tx, namespace, q)
		})
	var to *refs
	if err == nil && q.Refs {
		to, err = readRefs(ctx, tx, q, l.Items)
	}
	if err == nil && !q.Brief {
		err = store.ReadSnapshots(ctx, tx, l.Items)
	}
	out := pawl.List[pawl.Checkpoint]{Items: make([]pawl.Checkpoint, len(l.Items)), Next: l.Next}
	for i := range l.Items {
		out.Items[i] = l.Items[i].Checkpoint
		if q.Brief {
			out.Items[i].Snapshot = nil
		}
	}
	if err == nil && to != nil {
		err = to.give(ctx, tx, out.Items, room, q.Brief)
	}
	return out, err
}

// refs are the checkpoints that those of a page refer to, without their snapshots where
// these are stored elsewhere.
type refs struct {
	names  [][]string // of each checkpoint of the page; a name that ends with * is a prefix
	rows   []store.CheckpointRow
	of     map[string][]int // the places in rows, by the name or prefix
	cut    map[string]bool  // prefixes of which not all were read
	placed map[string]int   // the place in rows, by the id of the checkpoint
}

// refsOf returns the names that a checkpoint refers to. Metadata that says it in another form
// refers to none.
func refsOf(c *store.CheckpointRow) []string {
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
func readRefs(ctx context.Context, tx store.Tx, q pawl.CheckpointFilter, page []store.CheckpointRow) (*refs, error) {
	r := &refs{names: make([][]string, len(page)), of: map[string][]int{}, cut: map[string]bool{}, placed: map[string]int{}}
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
		err := r.read(ctx, tx, func(c *store.CheckpointRow) string { return c.Name }, q.Brief, texts["newest of names"],
			store.TaskID(q.TaskID), store.List(slices.Sorted(maps.Keys(names))), pawl.MaxRefs)
		if err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(prefixes)) {
		from, to := nameRange(strings.TrimSuffix(name, "*"))
		err := r.read(ctx, tx, func(*store.CheckpointRow) string { return name }, q.Brief, texts["newest of range"],
			store.TaskID(q.TaskID), from, to, pawl.MaxRefs+1)
		if err != nil {
			return nil, err
		}
		if of := r.of[name]; len(of) > pawl.MaxRefs {
			r.of[name], r.cut[name] = of[:pawl.MaxRefs], true
		}
	}
	return r, nil
}

func (r *refs) read(ctx context.Context, tx store.Tx, as func(c *store.CheckpointRow) string, brief bool, rest string, args ...any) error {
	rows, err := store.ReadCheckpoints(ctx, tx, brief, rest, args...)
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
func (r *refs) give(ctx context.Context, tx store.Tx, page []pawl.Checkpoint, room *store.PageRoom, brief bool) error {
	of, wanted := make([][]int, len(page)), map[int]bool{}
	for i := range page {
		var all []int
		for _, name := range r.names[i] {
			all = append(all, r.of[name]...)
			page[i].RefsLeft = page[i].RefsLeft || r.cut[name]
		}
		slices.SortFunc(all, func(a, b int) int { return cmp.Compare(r.rows[a].Sequence, r.rows[b].Sequence) })
		for _, at := range slices.Compact(all) {
			n := bytesOf(&r.rows[at])
			if n > room.Left() || len(of[i]) == pawl.MaxRefs {
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
		} else if err := store.ReadSnapshots(ctx, tx, r.rows[at:at+1]); err != nil {
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

// bytesOf returns what a checkpoint takes of a page.
func bytesOf(c *store.CheckpointRow) int { return c.SnapshotSize() + len(c.Metadata) }

func pageOf(ctx context.Context, tx store.Tx, namespace string, q pawl.CheckpointFilter) (pawl.List[store.CheckpointRow], error) {
	var w store.Where
	w.And("c.namespace = ?", namespace)
	if q.TaskID != "" {
		w.And("c.task_id = ?", store.TaskID(q.TaskID))
	}
	if q.ItemID != "" {
		w.And("c.item_id = ?", store.ItemID(q.ItemID))
	}
	if len(q.Types) > 0 {
		w.And("c.type @among(?)", store.List(q.Types))
	}
	if len(q.Names) > 0 {
		w.And("c.name @among(?)", store.List(q.Names))
	}
	if q.NamePrefix != "" {
		from, to := nameRange(q.NamePrefix)
		w.And("c.name >= ? AND c.name < ?", from, to)
	}
	if len(q.IDs) > 0 {
		w.And("c.id @among(?)", store.List(q.IDs))
	}
	if len(q.Sequences) > 0 {
		rows := make([][]any, len(q.Sequences))
		for i, n := range q.Sequences {
			rows[i] = []any{n}
		}
		w.And("c.seq IN (SELECT CAST(j.value ->> 0 AS BIGINT) FROM @each(?) AS j)", store.Table(rows))
	}
	if q.Own {
		w.And("c.item_id IS NULL")
	}
	for name, value := range q.Metadata {
		w.And("EXISTS (SELECT 1 FROM @checkpoint_metadata m WHERE m.key = ? AND m.value = ?)", name, value)
	}
	col, cmp, dir := "c.id", ">", " ASC"
	if q.Desc {
		cmp, dir = "<", " DESC"
	}
	if q.TaskID == "" && q.ItemID == "" {
		if err := w.ExceptCopies(ctx, tx, "c.task_id"); err != nil {
			return pawl.List[store.CheckpointRow]{}, err
		}
		if err := w.After(col+" "+cmp, "ckp_", q.Cursor); err != nil {
			return pawl.List[store.CheckpointRow]{}, err
		}
	} else if col = "c.seq"; q.Cursor != "" {
		n, err := strconv.ParseInt(q.Cursor, 10, 64)
		if err != nil {
			return pawl.List[store.CheckpointRow]{}, store.NotACursor()
		}
		w.And(col+" "+cmp+" ?", n)
	}
	out, err := store.ReadCheckpoints(ctx, tx, q.Brief, w.Text("", col+dir, q.Limit+1), w.Args...)
	if err != nil {
		return pawl.List[store.CheckpointRow]{}, err
	}
	return store.Paged(out, q.Limit, cursorOf(q)), nil
}

func cursorOf(q pawl.CheckpointFilter) func(store.CheckpointRow) string {
	if q.TaskID == "" && q.ItemID == "" {
		return func(c store.CheckpointRow) string { return c.ID }
	}
	return func(c store.CheckpointRow) string { return strconv.FormatInt(c.Sequence, 10) }
}
