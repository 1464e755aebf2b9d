package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/internal/clock"
)

// uploadRoom is how much an upload counts as a body in flight, at least: a piece as it is read,
// and a copy on its way to the database.
const uploadRoom = 2 * pawl.MaxBlobPiece

// uploadBuffers is implemented by an engine, whose object store may take more.
type uploadBuffers interface{ UploadMemory() int64 }

// largeUpload returns how much an upload of more than one piece counts.
func largeUpload(svc pawl.Service) int64 {
	if e, ok := svc.(uploadBuffers); ok {
		return max(uploadRoom, e.UploadMemory())
	}
	return uploadRoom
}

// uploadRoom returns how much the upload of a request counts.
func (s *server) uploadRoom(r *http.Request) int64 {
	if r.ContentLength >= 0 && r.ContentLength < pawl.MaxBlobPiece { // no store takes more for it
		return uploadRoom
	}
	return s.largeUpload
}

// stored answers with a blob that was stored.
type stored struct {
	Status   int
	Location string `header:"Location" doc:"The path of the blob."`
	Body     pawl.Blob
}

// blobs registers the upload and the download of blobs.
func (s *server) blobs() {
	add(s, "put_blob", func(ctx context.Context, in *struct {
		Digest string `header:"Repr-Digest" doc:"The SHA-256 that the bytes must have, as sha-256=:BASE64: (RFC 9530)."`
	}) (*stored, error) {
		address, err := addressOfDigest(in.Digest)
		if err != nil {
			return nil, err
		}
		upload := pawl.BlobUpload{Content: http.NoBody, Address: address}
		if body := callOf(ctx).upload; body != nil {
			upload.Content, upload.Size = body, max(0, body.length)
		}
		ctx, over, err := s.gate.BeginLongCall(ctx)
		if err != nil {
			return nil, err
		}
		defer over()
		blob, err := s.svc.PutBlob(ctx, upload)
		if err != nil {
			return nil, cmp.Or(access.Ended(ctx), err)
		}
		out := &stored{Status: http.StatusCreated, Location: "/v1/blobs/" + url.PathEscape(blob.Address), Body: blob}
		if blob.Existed {
			out.Status = http.StatusOK
		}
		return out, nil
	})
	s.amend(func(o *huma.OpenAPI) {
		o.Paths["/v1/blobs"].Post.RequestBody = &huma.RequestBody{
			Description: "The bytes. They are stored without their media type.",
			Content:     map[string]*huma.MediaType{"application/octet-stream": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}}
	})
	add(s, "get_blob", func(ctx context.Context, in *struct {
		ID    string `path:"id" doc:"The address."`
		Range string `header:"Range" doc:"The bytes that are wanted, as bytes=FIRST-LAST."`
		Match string `header:"If-None-Match" doc:"An ETag: its blob is not sent again."`
		If    string `header:"If-Range" doc:"An ETag: Range is ignored for another blob."`
	}) (*nothing, error) {
		callOf(ctx).rest = func(w http.ResponseWriter, r *http.Request) {
			if err := s.sendBlob(ctx, w, r, in.ID); err != nil {
				s.write(w, r, err)
			}
		}
		return &nothing{}, nil
	})
}

// addressOfDigest returns the address that a Repr-Digest names; "" = none.
func addressOfDigest(header string) (string, error) {
	for part := range strings.SplitSeq(header, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if !strings.EqualFold(name, "sha-256") {
			continue // digests of other kinds may be ignored
		}
		sum, err := base64.StdEncoding.DecodeString(strings.Trim(value, ":"))
		if address := pawl.BlobAddress(sum); err == nil && len(value) > 1 && value[0] == ':' && value[len(value)-1] == ':' {
			if _, ok := pawl.ParseBlobAddress(address); ok {
				return address, nil
			}
		}
		return "", &pawl.Error{Code: pawl.CodeInvalid, Message: "the header Repr-Digest is not sha-256=:BASE64:"}
	}
	return "", nil
}

// sendBlob answers with a blob or the range of it that is asked for. It returns an error only
// if the answer has not begun.
func (s *server) sendBlob(ctx context.Context, w http.ResponseWriter, r *http.Request, address string) error {
	ctx, over, err := s.gate.BeginLongCall(ctx)
	if err != nil {
		return err
	}
	defer over()
	blob, content, err := s.svc.OpenBlob(ctx, address)
	if err != nil {
		if why := access.Ended(ctx); why != nil {
			err = why
		}
		return err
	}
	defer content.Close()
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", "attachment")
	h.Set("ETag", `"`+blob.Address+`"`)
	h.Set("Cache-Control", "private, immutable, max-age=31536000")
	from := &blobSource{ReadSeeker: content}
	out := &blobWriter{ResponseWriter: w, from: from, reads: r.Method != http.MethodHead && blob.Size > 0}
	if strings.Contains(r.Header.Get("Range"), ",") { // a list may be ignored; each of its ranges would read a piece
		r = r.Clone(ctx)
		r.Header.Del("Range")
	}
	http.ServeContent(out, r, "", time.Time{}, from)
	if out.refused {
		p := s.problem(ctx, &pawl.Error{Code: pawl.CodeInvalid, Op: "get_blob", Message: "the blob does not have the range that Range asks for"})
		p.Status = http.StatusRequestedRangeNotSatisfiable
		h.Set("Content-Type", api.ProblemType)
		w.WriteHeader(p.Status)
		_ = encode(w, p) // the caller may have gone
	}
	if out.unread { // nothing was sent
		for name := range h {
			if strings.HasPrefix(name, "Content-") || slices.Contains([]string{"Accept-Ranges", "Cache-Control", "Etag"}, name) {
				h.Del(name)
			}
		}
		return cmp.Or(access.Ended(ctx), from.failed)
	}
	if from.failed != nil && ctx.Err() == nil {
		s.problem(ctx, from.failed) // the answer has begun: this only logs
		panic(http.ErrAbortHandler)
	}
	return nil
}

// blobSource notes why reading ended. first was read before the header was sent.
type blobSource struct {
	io.ReadSeeker
	first  []byte
	failed error
}

// firstBytes is how much of a blob is read before the header is sent: as much as is copied at once.
const firstBytes = 32 << 10

// begin reads the first bytes of an answer that has size bytes.
func (b *blobSource) begin(size int64) error {
	piece := make([]byte, min(firstBytes, max(size, 1)))
	n, err := b.Read(piece)
	if b.first = piece[:n]; n > 0 || err == io.EOF {
		return nil
	}
	return err
}

func (b *blobSource) Read(p []byte) (int, error) {
	if len(b.first) > 0 {
		n := copy(p, b.first)
		b.first = b.first[n:]
		return n, nil
	}
	if b.failed != nil {
		return 0, b.failed
	}
	n, err := b.ReadSeeker.Read(p)
	if err != nil && err != io.EOF {
		b.failed = err
	}
	return n, err
}

// blobWriter gives each write the time of its own: a blob may take longer than an answer may.
// It hides ReadFrom, which writes without a deadline. It sends the header once the first bytes
// of the answer are read.
type blobWriter struct {
	http.ResponseWriter
	from    *blobSource
	reads   bool // the answer has bytes of the blob
	refused bool // the range is not there: a problem is the answer
	unread  bool // the first bytes cannot be read: a problem is the answer
}

// WriteHeader implements http.ResponseWriter.
func (b *blobWriter) WriteHeader(status int) {
	b.refused = status == http.StatusRequestedRangeNotSatisfiable
	if b.reads && (status == http.StatusOK || status == http.StatusPartialContent) {
		size, _ := strconv.ParseInt(b.Header().Get("Content-Length"), 10, 64)
		b.unread = b.from.begin(size) != nil
	}
	if !b.refused && !b.unread {
		b.ResponseWriter.WriteHeader(status)
	}
}

// Write implements http.ResponseWriter.
func (b *blobWriter) Write(p []byte) (int, error) {
	if b.refused {
		return len(p), nil
	}
	if b.unread {
		return 0, b.from.failed
	}
	_ = http.NewResponseController(b.ResponseWriter).SetWriteDeadline(clock.Now().Add(slowest)) // not every writer supports deadlines
	return b.ResponseWriter.Write(p)
}

// Unwrap returns the writer under it, for http.ResponseController.
func (b *blobWriter) Unwrap() http.ResponseWriter { return b.ResponseWriter }

// uploadBody is the body of an upload. Each piece of it must arrive in the time that a body
// has.
type uploadBody struct {
	body   io.Reader
	length int64 // -1 = unknown
	rc     *http.ResponseController
	time   time.Duration
	n      int64 // bytes since the deadline was set
	ended  bool
}

// Read implements io.Reader.
func (u *uploadBody) Read(p []byte) (int, error) {
	if u.n <= 0 {
		_ = u.rc.SetReadDeadline(clock.Now().Add(u.time)) // not every writer supports deadlines
		_ = u.rc.SetWriteDeadline(clock.Now().Add(u.time + slowest))
		u.n = pawl.MaxBlobPiece
	}
	n, err := u.body.Read(p)
	u.n -= int64(n)
	if u.ended = u.ended || err == io.EOF; err != nil && err != io.EOF {
		err = &pawl.Error{Code: pawl.CodeInvalid, Message: "the body did not arrive whole", Err: err}
	}
	return n, err
}

// holdBytes puts the body of an upload aside, so that only its operation reads it. It takes the
// room for it once some of it has arrived. end is what is to be done after the request: a part of
// what was not read is discarded, because many clients read no answer before they have written
// the whole body.
func (s *server) holdBytes(w http.ResponseWriter, r *http.Request, in *room) (end func(), err error) {
	rc := http.NewResponseController(w)
	body := &uploadBody{body: r.Body, length: r.ContentLength, rc: rc, time: s.opts.BodyTime}
	first := make([]byte, smallBody)
	n, err := io.ReadFull(body, first)
	if err == nil || err == io.ErrUnexpectedEOF || err == io.EOF {
		err = in.take(r.Context(), s.uploadRoom(r))
	} else {
		w.Header().Set("Connection", "close")
		r.Body = http.NoBody
	}
	if err != nil {
		return nil, err
	}
	body.body = io.MultiReader(bytes.NewReader(first[:n]), r.Body)
	callOf(r.Context()).upload = body
	whole := *r
	r.Body = http.NoBody
	return func() {
		if body.ended || r.ContentLength == 0 {
			_ = rc.SetReadDeadline(time.Time{})
			return
		}
		drainBody(&whole, rc)
	}, nil
}
