package server

import (
	"bytes"
	"io"
	"net/http"
)

// wholeBody is a request's body in memory. Several checks look at it before the operation
// reads it.
type wholeBody struct {
	bytes.Reader
	data []byte
}

// Close implements io.Closer.
func (*wholeBody) Close() error { return nil }

func setBody(r *http.Request, data []byte) {
	b := &wholeBody{data: data}
	b.Reset(data)
	r.Body = b
}

// bodyOf returns the whole body, which can be read again. Do not modify it.
func bodyOf(r *http.Request) ([]byte, error) {
	if b, whole := r.Body.(*wholeBody); whole {
		return b.data, nil
	}
	data, err := io.ReadAll(r.Body)
	if err == nil && len(data) > 0 {
		setBody(r, data)
	}
	return data, err
}
