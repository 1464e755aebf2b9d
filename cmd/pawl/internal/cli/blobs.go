package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/store/objects"
	"github.com/pawl-work/pawl/store/objects/s3"
)

// blobsConfig says where the bytes of uploaded blobs are.
type blobsConfig struct {
	Store string   `koanf:"store"`
	Dir   string   `koanf:"dir"`
	S3    string   `koanf:"s3"`
	Lost  []string `koanf:"lost"`
	Keep  bool     `koanf:"keep"`
}

// The values of the setting blobs.store.
const (
	blobsInDatabase  = "database"
	blobsInDirectory = "directory"
	blobsInS3        = "s3"
)

func (b blobsConfig) check() error {
	switch {
	case !slices.Contains([]string{blobsInDatabase, blobsInDirectory, blobsInS3}, b.Store):
		return Invalid("blobs.store must be %s, %s or %s, not %q", blobsInDatabase, blobsInDirectory, blobsInS3, b.Store)
	case b.Store == blobsInDirectory && b.Dir == "":
		return Invalid("blobs.store is %s: set blobs.dir", b.Store)
	case b.Store == blobsInS3 && b.S3 == "":
		return Invalid("blobs.store is %s: set blobs.s3", b.Store)
	}
	return nil
}

// setStores opens the object stores that the settings name.
func (b blobsConfig) setStores(ctx context.Context, o *engine.Options) error {
	if b.Dir != "" {
		dir, err := objects.OpenDirectory(ctx, b.Dir)
		if err != nil {
			return Invalid("blobs.dir: %v", err)
		}
		b.use(o, dir, b.Store == blobsInDirectory)
	}
	if b.S3 != "" {
		bucket, err := s3.Open(b.S3, nil)
		if err != nil {
			return Invalid("blobs.s3: %v", err)
		}
		b.use(o, bucket, b.Store == blobsInS3)
	}
	for _, name := range b.Lost {
		if slices.ContainsFunc(o.BlobStores, func(s objects.Store) bool { return s.Name() == name }) {
			return Invalid("blobs.lost names %s, which blobs.dir or blobs.s3 has: remove it from one of the two", name)
		}
		o.BlobStores = append(o.BlobStores, objects.Lost(name))
	}
	return nil
}

// use reads blobs from a store, and writes new ones to it.
func (b blobsConfig) use(o *engine.Options, s objects.Store, writes bool) {
	if b.Keep {
		s = objects.Kept{Store: s}
	}
	o.BlobStores = append(o.BlobStores, s)
	if writes {
		o.Blobs = s
	}
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
	return Invalid("the database has blobs in %s, which no setting names: set blobs.dir to its directory or blobs.s3 to its bucket, "+
		"also if new blobs go elsewhere; if it is gone for ever, list it in blobs.lost", strings.Join(missing, ", "))
}
