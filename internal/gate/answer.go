package gate

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/pawl-work/pawl"
)

// maxInline is the largest body that is in the record of an effect; a larger one is a blob.
const maxInline = 64 << 10

// kept are the headers of an answer that are recorded. Others may be secrets.
var kept = []string{"Content-Type", "Content-Language", "Location", "Etag", "Last-Modified", "X-Request-Id", "Request-Id"}

// record is the answer of an upstream as it is recorded.
type record struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers,omitempty"`
	Text    *string           `json:"text,omitempty"`   // the body, if it is text
	Base64  string            `json:"base64,omitempty"` // the body, if it is not
	Body    *blobRef          `json:"body,omitempty"`   // the body, if it is large
	Stream  bool              `json:"stream,omitempty"` // the body was passed on as it came
}

type blobRef struct {
	Blob string `json:"$blob"`
}

// recorded returns the record of an answer; body nil = a stream.
func recorded(res *http.Response, body []byte) (json.RawMessage, error) {
	return recordOf(res, body, nil)
}

func recordOf(res *http.Response, body []byte, blob *blobRef) (json.RawMessage, error) {
	out := record{Status: res.StatusCode, Headers: map[string]string{}, Body: blob}
	for _, name := range kept {
		if v := res.Header.Get(name); v != "" && utf8.ValidString(v) {
			out.Headers[name] = v
		}
	}
	switch {
	case blob != nil:
	case body == nil:
		out.Stream = true
	case utf8.Valid(body) && !bytes.ContainsRune(body, 0):
		text := string(body)
		out.Text = &text
	default:
		out.Base64 = base64.StdEncoding.EncodeToString(body)
	}
	return json.Marshal(out)
}

// record returns the record of an answer whose body was read. A large body is stored as a blob.
func (c *call) record(ctx context.Context, res *http.Response, body []byte) (json.RawMessage, error) {
	if len(body) <= maxInline {
		return recordOf(res, slices.Concat([]byte{}, body), nil)
	}
	blob, err := c.g.Ledger.PutBlob(ctx, pawl.BlobUpload{Content: bytes.NewReader(body)})
	if err != nil {
		return nil, err
	}
	return recordOf(res, nil, &blobRef{blob.Address})
}

// give returns an answer of the upstream. An answer that the caller got is counted.
func (c *call) give(status int, headers http.Header, body []byte) {
	copyHeaders(c.w.Header(), headers)
	if len(body) > 0 { // else the flush would make it chunks, and the last one another write
		c.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	c.w.WriteHeader(status)
	_, err := c.w.Write(body)
	if err == nil {
		err = http.NewResponseController(c.w).Flush()
	}
	if err == nil && c.r.Context().Err() == nil {
		c.mine().Count(c.digest)
	}
}

// replay returns a recorded answer. What a person said happened has any form: it is the body.
func (c *call) replay(ctx context.Context, out pawl.OpenedEffect) {
	c.mine().Meet(c.key)
	var rec record
	if json.Unmarshal(out.Answer, &rec) != nil || rec.Status == 0 {
		c.give(http.StatusOK, http.Header{"Content-Type": {"application/json"}}, out.Answer)
		return
	}
	body, err := c.bodyOf(ctx, &rec)
	if err != nil {
		refuse(c.w, c.r, err)
		return
	}
	headers := http.Header{}
	for name, value := range rec.Headers {
		headers.Set(name, value)
	}
	c.give(rec.Status, headers, body)
}

func (c *call) bodyOf(ctx context.Context, rec *record) ([]byte, error) {
	switch {
	case rec.Body != nil:
		_, content, err := c.g.Ledger.OpenBlob(ctx, rec.Body.Blob)
		if err != nil {
			return nil, err
		}
		defer content.Close()
		return io.ReadAll(content)
	case rec.Text != nil:
		return []byte(*rec.Text), nil
	}
	return base64.StdEncoding.DecodeString(rec.Base64)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	body, _ := json.Marshal(v) // texts always marshal
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
