package cli

import (
	"io"
	"strings"
	"testing"

	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/store/objects"
)

// A copy of a database that is told to keep the blobs reads and writes them, and removes none.
func TestACopyKeepsTheBlobs(t *testing.T) {
	b, ctx := blobsConfig{Store: blobsInDirectory, Dir: t.TempDir(), Keep: true}, t.Context()
	var o engine.Options
	if err := b.setStores(ctx, &o); err != nil {
		t.Fatal(err)
	}
	if o.Blobs == nil || len(o.BlobStores) != 1 || o.BlobStores[0].Name() != o.Blobs.Name() {
		t.Fatalf("new blobs go to %v, old ones are in %v", o.Blobs, o.BlobStores)
	}
	if err := o.Blobs.Write(ctx, "upl_1", strings.NewReader("kept")); err != nil {
		t.Fatal(err)
	}
	if err := o.BlobStores[0].Remove(ctx, "upl_1"); err != nil {
		t.Fatal(err)
	}
	r, err := o.Blobs.Read(ctx, "upl_1", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); string(got) != "kept" || err != nil {
		t.Errorf("it is %s, %v", got, err)
	}
}

// A store is lost or configured, not both.
func TestALostStoreIsNotConfigured(t *testing.T) {
	dir, err := objects.OpenDirectory(t.Context(), t.TempDir()+"/blobs")
	if err != nil {
		t.Fatal(err)
	}
	var o engine.Options
	b := blobsConfig{Store: blobsInS3, S3: "https://example.com/bucket/here", Lost: []string{dir.Name()}}
	if err := b.setStores(t.Context(), &o); err != nil || len(o.BlobStores) != 2 {
		t.Errorf("another store is lost: %v, %v", o.BlobStores, err)
	}
	b.Lost = append(b.Lost, "s3:bucket/here/")
	if err := b.setStores(t.Context(), new(engine.Options)); err == nil || !strings.Contains(err.Error(), "s3:bucket/here/") {
		t.Errorf("the bucket is lost and configured: %v", err)
	}
}
