package client

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// uploadTime bounds one upload.
const uploadTime = time.Hour

// PutBlob stores a blob; see pawl.BlobWriter. It sends the content again only if that is an
// io.ReadSeeker.
func (c *Client) PutBlob(ctx context.Context, upload pawl.BlobUpload) (pawl.Blob, error) {
	r := request{route: api.RouteOf("put_blob")}
	if c.bad != nil {
		return pawl.Blob{}, c.bad
	}
	if upload.Content == nil {
		return pawl.Blob{}, pawl.Invalid("/content", "is missing")
	}
	content, seeks := upload.Content.(io.ReadSeeker)
	var start int64
	if seeks {
		var err error
		start, err = content.Seek(0, io.SeekCurrent)
		seeks = err == nil
	}
	for tries := c.opts.Tries; ; {
		out, read, err := c.put(ctx, &r, upload)
		if tries--; err == nil || !seeks || tries <= 0 || !again(&r, err) {
			return out, err
		}
		select {
		case <-read:
		case <-time.After(time.Second): // a read of the content does not return
			return out, err
		}
		if _, failed := content.Seek(start, io.SeekStart); failed != nil {
			return out, err
		}
		if c.pause(ctx, err) != nil {
			return out, err
		}
	}
}

// pause waits before a call is sent again.
func (c *Client) pause(ctx context.Context, err error) error {
	wait := 100 * time.Millisecond
	var e *pawl.Error
	if errors.As(err, &e) {
		if e.RetryAfter > longestWait {
			return err
		}
		wait = max(wait, e.RetryAfter)
	}
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// unread is the error of content that cannot be read.
type unread struct{ error }

// put sends an upload once. read is closed when the content is not being read any more.
func (c *Client) put(ctx context.Context, r *request, upload pawl.BlobUpload) (out pawl.Blob, read <-chan struct{}, err error) {
	ctx, cancel := context.WithTimeout(ctx, max(uploadTime, c.opts.Timeout))
	defer cancel()
	body, in := io.Pipe() // net/http waits for a read that does not return, even when ctx has ended
	defer body.Close()
	defer context.AfterFunc(ctx, func() { _ = body.CloseWithError(ctx.Err()) })()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, err := io.Copy(in, struct{ io.Reader }{upload.Content})
		if err != nil {
			err = unread{err}
		}
		in.CloseWithError(err)
	}()
	out, err = c.send(ctx, r, upload, body)
	return out, ended, err
}

func (c *Client) send(ctx context.Context, r *request, upload pawl.BlobUpload, body io.ReadCloser) (out pawl.Blob, err error) {
	req, err := http.NewRequestWithContext(ctx, r.route.Method, r.url(c.base), body)
	if err != nil {
		return out, &pawl.Error{Code: pawl.CodeInvalid, Op: r.route.Name, Message: "cannot be asked for over HTTP", Err: err}
	}
	c.headers(req, r)
	req.Header.Set("Content-Type", "application/octet-stream")
	req.Header.Set("Expect", "100-continue") // a refusal comes before the content is sent
	if upload.Size > 0 {
		req.ContentLength = upload.Size
	}
	if upload.Address != "" {
		sum, ok := pawl.ParseBlobAddress(upload.Address)
		if !ok {
			return out, errAddress
		}
		req.Header.Set("Repr-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum)+":")
	}
	res, err := c.opts.HTTP.Do(req)
	if is[unread](err) {
		return out, &pawl.Error{Code: pawl.CodeInvalid, Op: r.route.Name, Message: "the content cannot be read to its end", Err: err}
	}
	if err != nil && upload.Size > 0 && strings.Contains(err.Error(), "ContentLength=") { // net/http has no error value for it
		return out, &pawl.Error{Code: pawl.CodeInvalid, Op: r.route.Name, Err: err,
			Fields: []pawl.Field{{Pointer: "/size", Message: "is not the number of bytes that the content has"}}}
	}
	if err != nil {
		return out, away(r, err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, 1<<20)) // an answer is far smaller
	if err != nil {
		return out, away(r, err)
	}
	if res.StatusCode >= 300 {
		return out, refusal(r, res, data)
	}
	if err := json.Unmarshal(data, &out); err != nil {
		return out, &pawl.Error{Code: pawl.CodeInternal, Op: r.route.Name, Message: "the answer is not Pawl's", Err: err}
	}
	return out, nil
}

var errAddress = pawl.Invalid("/address", "is to be sha256: and 64 hex digits in lower case")

// OpenBlob opens a blob; see pawl.BlobReader. The bytes are read from the server while the
// caller reads. If the connection breaks, the next request asks for the rest.
func (c *Client) OpenBlob(ctx context.Context, address string) (pawl.Blob, io.ReadSeekCloser, error) {
	sum, _ := pawl.ParseBlobAddress(address) // the server refuses anything else
	if c.bad != nil {
		return pawl.Blob{}, nil, c.bad
	}
	b := &blobReader{client: c, ctx: ctx, address: address, sum: sum, size: -1, hash: sha256.New()}
	for tries := c.opts.Tries; ; {
		err := b.open()
		if err == nil {
			return pawl.Blob{Address: address, Size: b.size}, b, nil
		}
		if tries--; tries <= 0 || !again(&request{route: api.RouteOf("get_blob")}, err) || c.pause(ctx, err) != nil {
			return pawl.Blob{}, nil, err
		}
	}
}

// blobReader reads a blob from a server.
type blobReader struct {
	client   *Client
	ctx      context.Context
	address  string
	sum      []byte
	size, at int64
	body     io.ReadCloser // at at; nil = to be requested
	cancel   context.CancelFunc
	hash     hash.Hash // of all bytes before at; nil = some were passed over
	broken   int       // connections that broke since the last byte
}

// open requests the bytes from at on.
func (b *blobReader) open() error {
	ctx, cancel := context.WithCancel(b.ctx)
	r := request{route: api.RouteOf("get_blob"), id: b.address}
	req, err := http.NewRequestWithContext(ctx, r.route.Method, r.url(b.client.base), nil)
	if err != nil {
		cancel()
		return &pawl.Error{Code: pawl.CodeInvalid, Op: r.route.Name, Message: "cannot be asked for over HTTP", Err: err}
	}
	b.client.headers(req, &r)
	req.Header.Set("Accept", "application/octet-stream, application/problem+json")
	if b.at > 0 {
		req.Header.Set("Range", "bytes="+strconv.FormatInt(b.at, 10)+"-")
	}
	quiet := time.AfterFunc(silence, cancel)
	res, err := b.client.opts.HTTP.Do(req)
	quiet.Stop()
	if err != nil {
		cancel()
		return away(&r, err)
	}
	want := http.StatusOK
	if b.at > 0 {
		want = http.StatusPartialContent
	}
	if res.StatusCode != want || b.size < 0 && res.ContentLength < 0 {
		defer cancel()
		defer res.Body.Close()
		data, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20)) // a partial body is enough for the error
		return refusal(&r, res, data)
	}
	if b.size < 0 {
		b.size = res.ContentLength
	}
	b.body, b.cancel = res.Body, cancel
	return nil
}

// Read implements io.Reader.
func (b *blobReader) Read(p []byte) (int, error) {
	for {
		if len(p) == 0 {
			return 0, nil
		}
		if b.at >= b.size {
			return 0, b.intact(io.EOF)
		}
		if b.body == nil {
			if err := b.open(); err != nil {
				if b.broken++; b.broken >= b.client.opts.Tries || !again(&request{route: api.RouteOf("get_blob")}, err) ||
					b.client.pause(b.ctx, err) != nil {
					return 0, err
				}
				continue
			}
		}
		quiet := time.AfterFunc(silence, b.cancel)
		n, err := b.body.Read(p[:min(int64(len(p)), b.size-b.at)])
		quiet.Stop()
		if b.hash != nil {
			b.hash.Write(p[:n])
		}
		b.at += int64(n)
		if err != nil && b.at < b.size {
			_ = b.Close()
			if b.broken++; b.broken >= b.client.opts.Tries || b.ctx.Err() != nil {
				return n, &pawl.Error{Code: pawl.CodeUnavailable, Op: "get_blob", Message: "the blob did not arrive whole", Err: err}
			}
		}
		if n > 0 {
			b.broken = 0
			if b.at == b.size {
				if err := b.intact(nil); err != nil {
					return 0, err
				}
			}
			return n, nil
		}
	}
}

func (b *blobReader) intact(err error) error {
	if b.hash != nil && !bytes.Equal(b.hash.Sum(nil), b.sum) {
		return &pawl.Error{Code: pawl.CodeInternal, Op: "get_blob", Message: fmt.Sprintf("blob %s was changed", b.address)}
	}
	return err
}

// Seek moves to another place.
func (b *blobReader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += b.at
	case io.SeekEnd:
		offset += b.size
	}
	if offset < 0 {
		return 0, pawl.Invalid("/offset", "is before the beginning")
	}
	if offset == b.at {
		return offset, nil
	}
	if b.hash = nil; offset == 0 {
		b.hash = sha256.New()
	}
	b.at = offset
	return offset, b.Close()
}

// Close ends the request that is open.
func (b *blobReader) Close() error {
	if b.body == nil {
		return nil
	}
	b.cancel()
	_ = b.body.Close() // its error is the cancellation
	b.body = nil
	return nil
}
