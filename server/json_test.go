package server

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/internal/cost"
	"github.com/pawl-work/pawl/internal/strictjson"
)

// FuzzBodies decodes arbitrary bytes as each kind of body. A body that is accepted is JSON,
// has each of Pawl's names once, and its opaque values leave the encoder as they came in.
func FuzzBodies(f *testing.F) {
	for _, s := range []string{`{"type":"a","payload":{"b": 1,"b":2}}`, `{"items":[{"input":1}]}`, `{"a":{"a":1}}`, `[1,`,
		`"\ud800"`, "{\"a\":\"\xff\"}", `{"worker_id":"w","attempt":1,"error":{"message":"x","detail":[]}}`, `{"dedupe":["/a"]}`, ` 1 2`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if strictjson.Scan(data) != nil {
			return
		}
		if !json.Valid(data) {
			t.Fatalf("%q passed and is not JSON", data)
		}
		if _, err := treeOf(jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true))); err != nil {
			t.Fatalf("%q passed and is no tree: %v", data, err)
		}
		var task pawl.NewTask
		if decode(data, &task) == nil && len(task.Payload) > 0 {
			var b bytes.Buffer
			if err := encode(&b, pawl.Task{Payload: task.Payload, Metadata: json.RawMessage(`{}`)}); err != nil ||
				!bytes.Contains(b.Bytes(), task.Payload) {
				t.Fatalf("%q is not in %q: %v", task.Payload, b.Bytes(), err)
			}
		}
		bodies := []any{new(pawl.TaskUpdate), new(pawl.FailCall), new(pawl.CheckpointCall), new(pawl.ClaimRequest),
			new(api.Batch[pawl.CompleteCall]), new(pawl.KeyBegin), new(pawl.SignalCall)}
		cost.Check(t, len(data), func() {
			for _, body := range bodies {
				_ = decode(data, body) // an error, or not: no panic
			}
		})
	})
}

// FuzzQueries checks that an accepted query is plain text and has each name once.
func FuzzQueries(f *testing.F) {
	for _, s := range []string{"a=1&a=2", "a=%00", "metadata[a%00]=x", "%zz", "a=b;c=d", "=&&=", "a=\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		var q string
		var err error
		cost.Check(t, len(raw), func() { q, err = oneEach(raw) })
		if err == nil && !plainText(q) {
			t.Fatalf("%q became %q", raw, q)
		}
	})
}

// FuzzIfMatch checks that a version is read only from a quoted number.
func FuzzIfMatch(f *testing.F) {
	for _, s := range []string{`"0"`, `*`, ``, `W/"1"`, `"1","2"`, `1`, `"99999999999999999999"`, `"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var v *int
		var err error
		cost.Check(t, len(s), func() { v, err = versionOf(s) })
		if err == nil && v != nil && (*v < 0 || len(s) < 3) {
			t.Fatalf("%q is version %d", s, *v)
		}
	})
}
