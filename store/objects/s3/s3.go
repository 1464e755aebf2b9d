// Package s3 stores the bytes of blobs in a bucket of an S3-compatible service.
package s3

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/pawl-work/pawl/store/objects"
)

// part is the size of the parts in which an object is sent, the least that the protocol
// allows. An upload has one part in memory.
const part = 5 << 20

// small is how much is read of an object before there is room for a part.
const small = 256 << 10

// abortTime bounds the removal of the parts of an upload that failed.
const abortTime = 10 * time.Second

// Store has each object under its key in a bucket.
type Store struct {
	core           minio.Core
	bucket, prefix string
}

var _ objects.Store = (*Store)(nil)

// Open returns the store of a URL, https://ENDPOINT/BUCKET or https://ENDPOINT/BUCKET/PREFIX.
// The region follows as #region=NAME if the service needs one and does not tell it. Without
// credentials, those of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are used, or of
// ~/.aws/credentials, or of the machine's role. Open does not connect.
func Open(address string, keys *credentials.Credentials) (*Store, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("it is not a URL") // the error has the URL, which may have a password
	}
	options, err := url.ParseQuery(u.Fragment)
	bucket, prefix, _ := strings.Cut(strings.Trim(u.Path, "/"), "/")
	switch {
	case err != nil:
		return nil, errors.New("what follows # is not NAME=VALUE")
	case u.Scheme != "https" && u.Scheme != "http", u.Host == "", bucket == "":
		return nil, errors.New("it is to be https://ENDPOINT/BUCKET or https://ENDPOINT/BUCKET/PREFIX")
	case u.User != nil || u.RawQuery != "":
		return nil, errors.New("it has a user or a query: give credentials as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
	}
	for name := range options {
		if name != "region" {
			return nil, fmt.Errorf("it has an unknown option %s", name)
		}
	}
	if keys == nil {
		keys = credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{},
			&credentials.IAM{}})
	}
	c, err := minio.New(u.Host, &minio.Options{Creds: keys, Secure: u.Scheme == "https", Region: options.Get("region")})
	if err != nil {
		return nil, err
	}
	if prefix != "" {
		prefix += "/"
	}
	return &Store{core: minio.Core{Client: c}, bucket: bucket, prefix: prefix}, nil
}

// Name implements objects.Store. It has no endpoint, so a bucket may be moved to another
// service under its name.
func (s *Store) Name() string { return "s3:" + s.bucket + "/" + s.prefix }

// Write implements objects.Store. An object of more than one part is sent as a multipart
// upload, which a crash may leave unfinished; Remove removes it.
func (s *Store) Write(ctx context.Context, key string, r io.Reader) error {
	o := minio.PutObjectOptions{ContentType: "application/octet-stream", PartSize: part}
	first := make([]byte, small)
	n, err := fill(r, first)
	if err == nil { // there may be more
		first = append(make([]byte, 0, part), first...)[:part]
		n, err = fill(r, first[small:])
		n += small
	}
	switch err {
	case io.EOF:
		_, err = s.core.Client.PutObject(ctx, s.bucket, s.prefix+key, bytes.NewReader(first[:n]), int64(n), o)
	case nil:
		err = s.writeParts(ctx, s.prefix+key, first, r, o)
	}
	return err
}

// writeParts sends the first part, and then the others in the same memory. The minio client
// itself would take the memory of one more part.
func (s *Store) writeParts(ctx context.Context, name string, piece []byte, r io.Reader, o minio.PutObjectOptions) (err error) {
	id, err := s.core.NewMultipartUpload(ctx, s.bucket, name, o)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil { // Remove tries it again
			within, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTime)
			defer cancel()
			_ = s.core.AbortMultipartUpload(within, s.bucket, name, id)
		}
	}()
	var parts []minio.CompletePart
	for n := len(piece); n > 0; {
		sum := sha256.Sum256(piece[:n])
		sent, err := s.core.PutObjectPart(ctx, s.bucket, name, id, len(parts)+1, bytes.NewReader(piece[:n]), int64(n),
			minio.PutObjectPartOptions{Sha256Hex: hex.EncodeToString(sum[:]), DisableContentSha256: true}) // it is not computed again
		if err != nil {
			return err
		}
		parts = append(parts, minio.CompletePart{PartNumber: sent.PartNumber, ETag: sent.ETag})
		if n, err = fill(r, piece); err != nil && err != io.EOF {
			return err
		}
	}
	_, err = s.core.CompleteMultipartUpload(ctx, s.bucket, name, id, parts, minio.PutObjectOptions{})
	return err
}

// fill reads until b is full. io.EOF is the end of r, whatever was read before it; unlike
// io.ReadFull, it is never the error of content that was cut off.
func fill(r io.Reader, b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var m int
		m, err = r.Read(b[n:])
		n += m
	}
	return n, err
}

// WriteMemory implements objects.Store.
func (s *Store) WriteMemory() int64 { return small + part }

// Read implements objects.Store.
func (s *Store) Read(ctx context.Context, key string, offset int64) (io.ReadCloser, error) {
	var o minio.GetObjectOptions
	if offset > 0 {
		if err := o.SetRange(offset, 0); err != nil {
			return nil, err
		}
	}
	body, _, _, err := s.core.GetObject(ctx, s.bucket, s.prefix+key, o)
	switch code := minio.ToErrorResponse(err).Code; {
	case err == nil:
		return body, nil
	case code == minio.NoSuchKey:
		return nil, fmt.Errorf("%w: %s", fs.ErrNotExist, err.Error())
	case code == minio.InvalidRange: // the object is shorter
		return http.NoBody, nil
	}
	return nil, err
}

// Remove implements objects.Store. Parts of an unfinished upload are removed first: an upload
// that is finished meanwhile is an object then, and one that is not can no longer be finished.
func (s *Store) Remove(ctx context.Context, key string) error {
	err := s.core.RemoveIncompleteUpload(ctx, s.bucket, s.prefix+key)
	if code := minio.ToErrorResponse(err).Code; err != nil && code != minio.NotImplemented && code != minio.NoSuchUpload {
		return err
	}
	err = s.core.Client.RemoveObject(ctx, s.bucket, s.prefix+key, minio.RemoveObjectOptions{})
	if minio.ToErrorResponse(err).Code == minio.NoSuchKey {
		return nil
	}
	return err
}
