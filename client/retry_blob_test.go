package client_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pawl-work/pawl"
)

// An upload whose content can be read again is sent again when the server is busy.
func TestAnUploadIsSentAgain(t *testing.T) {
	var calls atomic.Int32
	c := answering(t, func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) < 3 {
			busy(w)
			return
		}
		content, err := io.ReadAll(r.Body)
		if err != nil || string(content) != "content" {
			t.Errorf("the third upload is %q, %v", content, err)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"address":"sha256:x","size":7}`)
	})
	b, err := c.PutBlob(t.Context(), pawl.BlobUpload{Content: strings.NewReader("content")})
	if err != nil || b.Size != 7 || calls.Load() != 3 {
		t.Errorf("%+v, %v after %d calls", b, err, calls.Load())
	}
	if _, err := c.PutBlob(t.Context(), pawl.BlobUpload{Content: strings.NewReader("content")}); err != nil {
		t.Error(err)
	}
}
