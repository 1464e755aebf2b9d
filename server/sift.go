package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/internal/idform"
	"github.com/pawl-work/pawl/internal/jsonscan"
	"github.com/pawl-work/pawl/internal/strictjson"
)

// Each call of a batch is answered on its own, also one that cannot be read. A batch is read whole,
// as any other body. Only if that fails are its calls read one by one, and those that fail
// set aside.

// sifted are the calls of a batch that were set aside.
type sifted struct {
	kept    []int         // the places in the batch of the calls that are left; nil = all are
	refused map[int]error // by place
	digests []string      // of the refused calls, for the hash of an idempotency key
}

// sift sets aside the calls that check refuses, and leaves the others as the body. It returns why the batch
// was refused if that was not for its calls.
func (s *server) sift(r *http.Request, why error, check func(call []byte) error) error {
	body, err := bodyOf(r)
	if err != nil {
		return err
	}
	calls := callsOf(body)
	if len(calls) == 0 || len(calls) > pawl.MaxItemsPerCall || errors.Is(why, strictjson.TooMany) {
		return why
	}
	set := &callOf(r.Context()).sifted
	var left [][]byte
	var kept []int
	for i, text := range calls {
		at := set.place(i)
		if bad := check(text); bad == nil {
			left, kept = append(left, text), append(kept, at)
		} else if !wellFormed(text) { // where the call ends is a guess
			return why
		} else {
			set.refuse(at, bad, text)
		}
	}
	if len(left) == len(calls) {
		return why
	}
	set.kept = kept
	setBody(r, slices.Concat([]byte(`{"items":[`), bytes.Join(left, []byte(",")), []byte(`]}`)))
	return nil
}

// place returns the place in the batch of the call that is now the ith.
func (f *sifted) place(i int) int {
	if f.kept == nil {
		return i
	}
	return f.kept[i]
}

func (f *sifted) refuse(at int, why error, text []byte) {
	if f.refused == nil {
		f.refused = map[int]error{}
	}
	f.refused[at] = why
	digest := sha256.Sum256(text)
	f.digests = append(f.digests, strconv.Itoa(at)+" "+hex.EncodeToString(digest[:]))
}

// withRefused puts the answers of refused calls in their places among the results of the others.
func withRefused(f *sifted, rs reflect.Value) reflect.Value {
	if len(f.refused) == 0 {
		return rs
	}
	n := rs.Len() + len(f.refused)
	out := reflect.MakeSlice(rs.Type(), n, n)
	for at, err := range f.refused {
		out.Index(at).Field(resultErr).Set(reflect.ValueOf(err))
	}
	for i := range rs.Len() {
		out.Index(f.place(i)).Set(rs.Index(i))
	}
	return out
}

// readBatch reads the list of calls of a batch, which is an api.Batch. Calls that cannot be decoded are set aside.
func readBatch(ctx context.Context, text []byte, of reflect.Type) (reflect.Value, error) {
	batch := reflect.New(of)
	why := decode(text, batch.Interface())
	items := batch.Elem().Field(0)
	if why == nil {
		return items, nil
	}
	set := &callOf(ctx).sifted
	var kept []int
	calls := reflect.MakeSlice(items.Type(), 0, 0)
	for i, text := range callsOf(text) {
		call := reflect.New(items.Type().Elem())
		if err := decode(text, call.Interface()); err != nil {
			set.refuse(set.place(i), asInvalid(err), text)
			continue
		}
		calls, kept = reflect.Append(calls, call.Elem()), append(kept, set.place(i))
	}
	if len(set.refused) == 0 {
		return calls, asInvalid(why)
	}
	set.kept = kept
	return calls, nil
}

// checkCalls checks the body of a call, and the calls of a batch one by one if the batch is refused.
func (s *server) checkCalls(r *http.Request, route api.Route) error {
	err := checkRead(r)
	if err == nil || !s.batches[route.Name] {
		return err
	}
	if err := s.sift(r, err, strictjson.Scan); err != nil {
		return err
	}
	return checkRead(r)
}

// fitCalls is fits for a route.
func (s *server) fitCalls(op *huma.Operation, r *http.Request, route api.Route) error {
	if set := &callOf(r.Context()).sifted; set.kept != nil && len(set.kept) == 0 {
		return nil // no call is left
	}
	err := s.fits(op, r)
	if err == nil || !s.batches[route.Name] {
		return err
	}
	var schema *huma.Schema
	for _, content := range op.RequestBody.Content {
		schema = content.Schema
	}
	for schema.Ref != "" {
		schema = s.api.OpenAPI().Components.Schemas.SchemaFromRef(schema.Ref)
	}
	if err := s.sift(r, err, func(call []byte) error { return asInvalid(s.fit(schema.Properties["items"].Items, call)) }); err != nil {
		return err
	}
	if len(callOf(r.Context()).sifted.kept) == 0 {
		return nil
	}
	return s.fits(op, r)
}

// asInvalid returns the error of one call of a batch.
func asInvalid(err error) error {
	var faults schemaFaults
	var one fault
	switch {
	case errors.As(err, &faults):
		return invalidFields(nil, faults)
	case errors.As(err, &one):
		return pawl.Invalid(one.Pointer, "%s", one.Message)
	}
	return err
}

// describeBatch describes the body of a batch of calls.
func (s *server) describeBatch(o *huma.OpenAPI, v *verb) {
	r := v.batch
	s.ids[r.Name].body = idform.MembersOf(v.calls, "json")
	s.batches[r.Name] = true
	o.Paths[r.Path].Post.RequestBody = &huma.RequestBody{
		Required: true,
		Content: map[string]*huma.MediaType{"application/json": {
			Schema: o.Components.Schemas.Schema(v.calls, true, ""),
		}},
	}
}

// callsOf returns the texts of the calls of a batch; nil if the text is no object with a list items alone.
func callsOf(text []byte) [][]byte {
	for _, token := range []string{"{", `"items"`, ":"} {
		var ok bool
		if text, ok = bytes.CutPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte(token)); !ok {
			return nil
		}
	}
	calls, rest, ok := strictjson.Values(text)
	if !ok || string(bytes.Trim(rest, " \t\r\n")) != "}" {
		return nil
	}
	return calls
}

// wellFormed reports whether a text is JSON if the characters in its strings do not matter.
func wellFormed(text []byte) bool {
	if jsonscan.Depth(text) > pawl.MaxDepth+strictjson.EnvelopeDepth {
		return true // its brackets match; the decoder does not go as deep
	}
	return jsontext.Value(jsonscan.WithoutControls(text)).IsValid(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
}
