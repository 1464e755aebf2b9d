package checkpoints

import (
	"context"
	"math"
	"regexp"
	"sync"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/store"
)

// owner is whose a snapshot is: a task's, or an item's.
type owner struct{ taskID, itemID string }

// OfItem implements kernel.Snapshots.
func (c *blobCache) OfItem(ctx context.Context, k *kernel.Kernel, itemID, name string, text store.Text) (store.Snapshot, error) {
	return c.snapshot(ctx, k, owner{itemID: itemID}, name, text)
}

// snapshot decides how a snapshot is stored: a small one in its checkpoint, a large one as
// a blob, which is a delta against an earlier snapshot of the same item or task where that
// pays. A base that cannot be read is not used.
func (c *blobCache) snapshot(ctx context.Context, k *kernel.Kernel, of owner, name string, saved store.Text) (store.Snapshot, error) {
	if len(saved) < pawl.MinBlobBytes {
		return store.Snapshot{Text: saved}, nil
	}
	text := []byte(saved)
	blob := store.NewBlob(text)
	ns := pawl.CallerOf(ctx).Namespace
	err := k.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
		blob = store.NewBlob(text)
		heads, err := blobParents(ctx, tx, ns, of, name)
		if err != nil || len(heads) == 0 {
			return err
		}
		base, err := c.read(ctx, tx, ns, heads[0].Address)
		if err == nil {
			blob = store.NewBlobOn(heads[0], base, text)
		} else if pawl.CodeOf(err) == pawl.CodeInternal {
			k.Log.WarnContext(ctx, "a snapshot is saved whole: the one before cannot be read", "item_id", of.itemID, "error", err)
			err = nil
		}
		return err
	})
	c.put(ns, blob.Address, text)
	return store.Snapshot{Blob: &blob}, err
}

// blobCache has the texts of blobs that were read or written last: the next snapshot of an
// item is a delta against one of them. An address has one text for ever, so an entry is
// never wrong. KeepBlob looks whether the blob is stored.
type blobCache struct {
	mu    sync.Mutex
	texts map[blobKey][]byte
	order []blobKey // oldest first
	bytes int
}

type blobKey struct{ namespace, address string }

// blobCacheBytes bounds the texts in the cache.
const blobCacheBytes = 16 << 20

func (c *blobCache) read(ctx context.Context, tx store.Tx, namespace string, address []byte) ([]byte, error) {
	c.mu.Lock()
	text, there := c.texts[blobKey{namespace, string(address)}]
	c.mu.Unlock()
	if there {
		return text, nil
	}
	return store.ReadBlob(ctx, tx, namespace, address)
}

func (c *blobCache) put(namespace string, address, text []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.texts == nil {
		c.texts = map[blobKey][]byte{}
	}
	k := blobKey{namespace, string(address)}
	if _, there := c.texts[k]; there || len(text) > blobCacheBytes {
		return
	}
	c.texts[k], c.order, c.bytes = text, append(c.order, k), c.bytes+len(text)
	for c.bytes > blobCacheBytes {
		oldest := c.order[0]
		c.bytes -= len(c.texts[oldest])
		delete(c.texts, oldest)
		c.order = c.order[1:]
	}
}

// blobParents reads the newest blobs among the checkpoints of an item, or of a task without
// one: first the newest of the given name or of the one that is most like it, then the newest.
func blobParents(ctx context.Context, tx store.Tx, namespace string, whose owner, name string) (out []store.BlobHead, err error) {
	query, id := "blobs of item", store.ID(store.ItemID(whose.itemID))
	if whose.itemID == "" {
		query, id = "blobs of task", store.TaskID(whose.taskID)
	}
	best := -1
	name = fraction.ReplaceAllString(name, "")
	err = store.EachRow(ctx, tx, func(rows store.Rows) error {
		var b store.BlobHead
		var of string
		if err := rows.Scan(&of, &b.Address, &b.Depth, &b.Chain, &b.Size); err != nil {
			return err
		}
		if like := alike(fraction.ReplaceAllString(of, ""), name); like > best {
			out, best = append([]store.BlobHead{b}, out...), like
		} else {
			out = append(out, b)
		}
		return nil
	}, texts[query], id, namespace, parentsRead)
	return out, err
}

// fraction is what names of versions may have behind a number, at random: it says nothing of their order.
var fraction = regexp.MustCompile(`\.[0-9]+`)

// alike is how many bytes two names have in common at their beginnings and ends.
func alike(a, b string) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	if n == max(len(a), len(b)) {
		return math.MaxInt
	}
	for a, b = a[n:], b[n:]; a != "" && b != "" && a[len(a)-1] == b[len(b)-1]; n++ {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return n
}

// parentsRead bounds the checkpoints among which the base of a new blob is looked for.
const parentsRead = 8
