package dashboard

import (
	"encoding/json"

	"github.com/pawl-work/pawl"
)

// blobsShown is how many of the blobs that values refer to are on a page.
const blobsShown = 20

// blobs returns the blobs that values refer to, without those that are not there. A key that
// hides payloads gets none.
func (d *server) blobs(v *request, values ...json.RawMessage) (out []pawl.Blob) {
	if !v.pass.Payloads() {
		return nil
	}
	addresses := pawl.BlobsIn(values...)
	for _, address := range addresses[:min(len(addresses), blobsShown)] {
		if blob, content, err := d.svc.OpenBlob(v.Context(), address); err == nil { // otherwise the value alone is shown
			_ = content.Close() // nothing was read
			out = append(out, blob)
		}
	}
	return out
}
