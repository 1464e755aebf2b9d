package dashboard_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

// Pages of tasks and items have the sizes of the blobs that values refer to, and links to
// their bytes. A key that hides payloads gets neither.
func TestBlobsOfValues(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := open(t, p, true)
		b, err := p.Engine.PutBlob(t.Context(), pawl.BlobUpload{Content: strings.NewReader("<b>four quarters</b>")})
		if err != nil {
			t.Fatal(err)
		}
		value := `{"$blob": "` + b.Address + `"}`
		h.p.Create(pawl.NewTask{Type: "sum", Payload: json.RawMessage(`[` + value + `, ` + value + `]`)})
		l, link := h.claim("sum"), "/ui/blobs/"+url.PathEscape(b.Address)
		h.login(pawl.NewAPIKey{Roles: []string{"reader", "approver"}})
		for _, path := range []string{"/ui/tasks/" + l.TaskID, "/ui/items/" + l.ID} {
			got := h.get(path)
			h.has(got, 200, link, "20 bytes")
			if n := strings.Count(got.text, link); n != 1 {
				t.Errorf("%s has %d links", path, n)
			}
		}
		got := h.get(link)
		h.has(got, 200, "<b>four quarters</b>")
		if kind, as := got.Header.Get("Content-Type"), got.Header.Get("Content-Disposition"); kind != "application/octet-stream" ||
			as != "attachment" {
			t.Errorf("the blob is sent as %s, %s", kind, as)
		}
		if got := h.get("/ui/blobs/" + strings.Replace(link, "1", "2", 1)); got.StatusCode != 404 {
			t.Errorf("an unknown blob: %s", got.Status)
		}
		h.login(pawl.NewAPIKey{Roles: []string{"reader"}})
		for _, path := range []string{"/ui/tasks/" + l.TaskID, "/ui/items/" + l.ID} {
			h.hasNot(h.get(path), b.Address, "20 bytes")
		}
		h.post("/ui/logout")
		if got := h.get(link); got.StatusCode != 401 {
			t.Errorf("without a session: %s", got.Status)
		}
	})
}
