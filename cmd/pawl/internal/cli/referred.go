package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/terminal"
)

// blobsShown is how many of the blobs that values refer to are shown.
const blobsShown = 20

// ShowBlobs shows the blobs that values refer to: the size of each, and where it can be read.
func (a *App) ShowBlobs(ctx context.Context, w io.Writer, s pawl.BlobReader, values ...json.RawMessage) {
	addresses := pawl.BlobsIn(values...)
	var fields []string
	for _, address := range addresses[:min(len(addresses), blobsShown)] {
		blob, content, err := s.OpenBlob(ctx, address)
		if err != nil {
			fields = append(fields, "blob", address+": "+terminal.Printable(err.Error()))
			continue
		}
		_ = content.Close() // nothing was read
		where := "pawl blob get " + address
		if server := a.Config.Server; strings.HasPrefix(server, "http") {
			where = strings.TrimSuffix(server, "/") + "/v1/blobs/" + url.PathEscape(address)
		}
		fields = append(fields, "blob", fmt.Sprintf("%d bytes: %s", blob.Size, where))
	}
	terminal.Fields(w, fields...)
	if more := len(addresses) - blobsShown; more > 0 {
		fmt.Fprintf(w, "and %d blobs more\n", more)
	}
}
