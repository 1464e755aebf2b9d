package cli

import (
	"context"
	"strings"

	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/store/objects"
)

// blobsConfig says where the bytes of uploaded blobs are.
type blobsConfig struct {
	Store string   `koanf:"store"`
	Dir   string   `koanf:"dir"`
	Lost  []string `koanf:"lost"`
}

// The values of the setting blobs.store.
const (
	blobsInDatabase  = "database"
	blobsInDirectory = "directory"
)

func (b blobsConfig) check() error {
	switch {
	case b.Store != blobsInDatabase && b.Store != blobsInDirectory:
		return Invalid("blobs.store must be %s or %s, not %q", blobsInDatabase, blobsInDirectory, b.Store)
	case b.Store == blobsInDirectory && b.Dir == "":
		return Invalid("blobs.store is %s: set blobs.dir", b.Store)
	}
	return nil
}

// setStores opens the object stores that the settings name.
func (b blobsConfig) setStores(ctx context.Context, o *engine.Options) error {
	for _, name := range b.Lost {
		o.BlobStores = append(o.BlobStores, objects.Lost(name))
	}
	if b.Dir != "" {
		dir, err := objects.OpenDirectory(ctx, b.Dir)
		if err != nil {
			return Invalid("blobs.dir: %v", err)
		}
		o.BlobStores = append(o.BlobStores, dir)
		if b.Store == blobsInDirectory {
			o.Blobs = dir
		}
	}
	return nil
}

// BlobStores is what knows which object stores a database needs; the engine implements it.
type BlobStores interface {
	UnknownBlobStores(ctx context.Context) ([]string, error)
}

// HasBlobStores returns an error if the database has blobs in an object store that the
// settings do not name.
func HasBlobStores(ctx context.Context, s any) error {
	b, ok := s.(BlobStores)
	if !ok {
		return nil
	}
	missing, err := b.UnknownBlobStores(ctx)
	if err != nil || len(missing) == 0 {
		return err
	}
	return Invalid("the database has blobs in %s, which no setting names: set blobs.dir to its directory, also if new blobs go elsewhere; "+
		"if it is gone for ever, list it in blobs.lost", strings.Join(missing, ", "))
}
