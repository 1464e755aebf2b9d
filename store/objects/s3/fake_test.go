package s3_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// fake is a service that speaks as much of S3 as the store uses, with one bucket. It refuses
// calls without its access key, and a body whose declared digest is another.
type fake struct {
	mu      sync.Mutex
	objects map[string][]byte
	uploads map[string]map[int][]byte // by the key of the object and the id of the upload
	uploadN int
	calls   map[string]int
	fail    func(r *http.Request) bool // answers with 503
}

const (
	bucket    = "blobs"
	accessKey = "the-access-key"
)

func newFake(t *testing.T) (f *fake, address string) {
	f = &fake{objects: map[string][]byte{}, uploads: map[string]map[int][]byte{}, calls: map[string]int{}}
	srv := httptest.NewServer(f)
	t.Cleanup(srv.Close)
	return f, srv.URL
}

// stored lists what the bucket has: objects, and parts of unfinished uploads.
func (f *fake) stored() (out []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.objects))
}

func (f *fake) unfinished() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.uploads)
}

func (f *fake) change(key string, body []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.objects[key] = body; body == nil {
		delete(f.objects, key)
	}
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%s</Message></Error>", code, code)
}

// ServeHTTP implements http.Handler.
func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := bodyOf(r)
	f.mu.Lock()
	defer f.mu.Unlock()
	q := r.URL.Query()
	in, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	f.calls[r.Method]++
	switch {
	case !strings.Contains(r.Header.Get("Authorization"), "Credential="+accessKey+"/"):
		refuse(w, http.StatusForbidden, "AccessDenied")
	case err != nil:
		refuse(w, http.StatusBadRequest, "XAmzContentSHA256Mismatch")
	case f.fail != nil && f.fail(r):
		refuse(w, http.StatusNotImplemented, "Unavailable") // a status that the client does not repeat
	case in != bucket:
		refuse(w, http.StatusNotFound, "NoSuchBucket")
	case q.Has("location"):
		fmt.Fprint(w, `<LocationConstraint>eu-test-1</LocationConstraint>`)
	case key == "":
		f.list(w, q.Get("prefix"))
	case q.Has("uploads") || q.Has("uploadId"):
		f.multipart(w, r, key, body)
	default:
		f.object(w, r, key, body)
	}
}

// bodyOf reads a body and compares it with the digest in the header; a body that is sent in
// signed chunks is decoded.
func bodyOf(r *http.Request) ([]byte, error) {
	raw, err := io.ReadAll(r.Body)
	digest := r.Header.Get("X-Amz-Content-Sha256")
	if err != nil || digest == "UNSIGNED-PAYLOAD" {
		return raw, err
	}
	if strings.HasPrefix(digest, "STREAMING-") {
		return dechunk(raw)
	}
	if sum := sha256.Sum256(raw); hex.EncodeToString(sum[:]) != digest {
		return nil, fmt.Errorf("the digest is not %s", digest)
	}
	return raw, nil
}

func dechunk(raw []byte) (out []byte, err error) {
	for in := bufio.NewReader(bytes.NewReader(raw)); ; {
		line, err := in.ReadString('\n')
		if err != nil {
			return nil, err
		}
		size, _, _ := strings.Cut(strings.TrimSpace(line), ";")
		n, err := strconv.ParseInt(size, 16, 64)
		if err != nil || n == 0 {
			return out, err
		}
		chunk := make([]byte, n+2) // and the end of the line
		if _, err := io.ReadFull(in, chunk); err != nil {
			return nil, err
		}
		out = append(out, chunk[:n]...)
	}
}

func (f *fake) list(w http.ResponseWriter, prefix string) {
	type upload struct{ Key, UploadId, Initiated string }
	var out struct {
		XMLName xml.Name `xml:"ListMultipartUploadsResult"`
		Bucket  string
		Upload  []upload
	}
	for id := range f.uploads {
		key, _, _ := strings.Cut(id, "?")
		if strings.HasPrefix(key, prefix) {
			out.Upload = append(out.Upload, upload{key, id, time.Now().UTC().Format(time.RFC3339)})
		}
	}
	out.Bucket = bucket
	_ = xml.NewEncoder(w).Encode(out)
}

func (f *fake) multipart(w http.ResponseWriter, r *http.Request, key string, body []byte) {
	id := r.URL.Query().Get("uploadId")
	if r.URL.Query().Has("uploads") {
		f.uploadN++
		id = fmt.Sprintf("%s?%d", key, f.uploadN)
		f.uploads[id] = map[int][]byte{}
		_ = xml.NewEncoder(w).Encode(struct {
			XMLName               xml.Name `xml:"InitiateMultipartUploadResult"`
			Bucket, Key, UploadId string
		}{Bucket: bucket, Key: key, UploadId: id})
		return
	}
	parts, there := f.uploads[id]
	switch {
	case !there:
		refuse(w, http.StatusNotFound, "NoSuchUpload")
	case r.Method == http.MethodDelete:
		delete(f.uploads, id)
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodPut:
		n, _ := strconv.Atoi(r.URL.Query().Get("partNumber"))
		parts[n] = body
		w.Header().Set("ETag", fmt.Sprintf(`"%d"`, n))
	default:
		var all []byte
		for _, n := range slices.Sorted(maps.Keys(parts)) {
			all = append(all, parts[n]...)
		}
		f.objects[key] = all
		delete(f.uploads, id)
		fmt.Fprintf(w, `<CompleteMultipartUploadResult><Bucket>%s</Bucket><Key>%s</Key><ETag>"e"</ETag></CompleteMultipartUploadResult>`,
			bucket, key)
	}
}

func (f *fake) object(w http.ResponseWriter, r *http.Request, key string, body []byte) {
	object, there := f.objects[key]
	switch {
	case r.Method == http.MethodPut:
		f.objects[key] = body
		w.Header().Set("ETag", `"e"`)
	case r.Method == http.MethodDelete:
		delete(f.objects, key)
		w.WriteHeader(http.StatusNoContent)
	case !there:
		refuse(w, http.StatusNotFound, "NoSuchKey")
	default:
		w.Header().Set("ETag", `"e"`)
		var from int
		if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); err == nil && from >= len(object) {
			refuse(w, http.StatusRequestedRangeNotSatisfiable, "InvalidRange")
			return
		}
		http.ServeContent(w, r, "", time.Unix(1, 0), bytes.NewReader(object))
	}
}
