// Package blobs is the room of blobs that callers upload: their bytes, in the database or in object stores, and what keeps
// them. Snapshots that are stored as blobs are those of checkpoints.
package blobs

import (
	"context"
	"embed"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/store/objects"
)

//go:embed *.sql
var sqlFiles embed.FS

var texts = store.Texts(sqlFiles, "upload.sql")

// Blobs are the uploaded blobs of a database.
type Blobs struct {
	k      *kernel.Kernel
	to     objects.Store   // has the bytes of new ones; nil = the database
	others []objects.Store // have those of older ones
	most   int64           // bytes of one blob
}

// New returns the blobs of a database, and gives the kernel what others ask of them.
func New(k *kernel.Kernel, to objects.Store, others []objects.Store, most int64) *Blobs {
	r := &Blobs{k, to, others, most}
	k.Blobs = asked{r}
	k.Refer = func(ctx context.Context, w *kernel.Write, op, text string) error {
		used := rules.BlobsInText(text)
		if len(used) == 0 {
			return nil
		}
		now, err := w.Now(ctx)
		if err != nil {
			return err
		}
		return k.Blobs.Use(ctx, w.Tx, now, op, used)
	}
	return r
}

// Over returns the blobs over another Kernel of the same database.
func Over(r *Blobs, k *kernel.Kernel) *Blobs { return &Blobs{k, r.to, r.others, r.most} }

// asked implements kernel.Blobs.
type asked struct{ r *Blobs }

// Declared is the declaration of the room. A reference is a row of a task that is neither archived nor copied: an archive has
// the addresses, and a copy refers anew.
func Declared() kernel.Room {
	return kernel.Room{
		Name: "blobs",
		Tables: []kernel.Table{
			{Name: "uploads", Key: "namespace", Plain: []string{"id", "namespace", "place"}, Changes: "until its bytes are there, and when " +
				"they are removed; no event tells of it"},
			{Name: "upload_pieces", Key: "upload", Plain: []string{"upload_id"}, Changes: "never"},
			{Name: "uploaded_blobs", Key: "namespace", Plain: []string{"namespace", "upload_id"}, Changes: "when it is used; no event " +
				"tells of it"},
			{Name: "blob_refs", Key: "blob", Plain: []string{"namespace"}, Changes: "never"},
		},
		Steps:  []store.Step{{Name: "uploads", Run: removeBytes}},
		Unused: []func() store.UnusedBlobs{func() store.UnusedBlobs { return store.UnusedBlobs{List: (&textHolds{}).idle, Remove: remove} }},
	}
}

// Objects implements kernel.Blobs.
func (a asked) Objects(place string) (objects.Store, error) { return a.r.objects(place) }

func (r *Blobs) objects(place string) (objects.Store, error) {
	if place == "" {
		return listObjects{DB: r.k.Base}, nil
	}
	if o := r.to; o != nil && o.Name() == place {
		return o, nil
	}
	for _, o := range r.others {
		if o.Name() == place {
			return o, nil
		}
	}
	return nil, &pawl.Error{Code: pawl.CodeUnavailable, Op: "blob",
		Message: "the blob is in the object store " + place + ", which is not configured"}
}

// Places implements kernel.Blobs.
func (a asked) Places(ctx context.Context) (out []string, err error) {
	err = a.r.k.DB.View(kernel.ForAll(ctx), func(ctx context.Context, tx store.Tx) error {
		out, err = places(ctx, tx)
		return err
	})
	return out, err
}
