package engine_test

import (
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// A call that is refused because it refers to a blob that was not uploaded keeps no reference
// to the others that it names.
func TestARefusedReferenceKeepsNone(t *testing.T) {
	t.Parallel()
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			p := pawltest.OpenWith(t, which, engine.Options{})
			b := need[pawl.Blob](t)(p.Engine.PutBlob(t.Context(), pawl.BlobUpload{Content: strings.NewReader("uploaded")}))
			none := "sha256:" + strings.Repeat("ab", 32)
			_, err := pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "a",
				Payload: []byte(`[{"$blob":"` + b.Address + `"},{"$blob":"` + none + `"}]`)})
			if pawl.CodeOf(err) != pawl.CodeInvalid || !strings.Contains(err.Error(), none) {
				t.Errorf("%v", err)
			}
			if rows := queried(t, p, "SELECT COUNT(*) FROM pawl.blob_refs"); rows != 0 {
				t.Errorf("%d references stay", rows)
			}
		})
	}
}
