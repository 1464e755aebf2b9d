// Package s3 stores the bytes of blobs in a bucket of an S3-compatible service.
package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/pawl-work/pawl/store/objects"
)

// part is the size of the parts in which an object is sent, the least that the protocol
// allows. An upload has one part in memory.
const part = 5 << 20

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
	var first bytes.Buffer
	n, err := io.CopyN(&first, r, part)
	o := minio.PutObjectOptions{ContentType: "application/octet-stream", PartSize: part}
	switch err {
	case io.EOF:
		_, err = s.core.Client.PutObject(ctx, s.bucket, s.prefix+key, bytes.NewReader(first.Bytes()), n, o)
	case nil:
		_, err = s.core.Client.PutObject(ctx, s.bucket, s.prefix+key, io.MultiReader(&first, r), -1, o)
	}
	return err
}

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
