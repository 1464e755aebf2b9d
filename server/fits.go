package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/strictjson"
)

// maxFaults is how many faults of a body an answer reports.
const maxFaults = 100

// schemaFaults are the faults of a body that does not fit its operation's schema.
type schemaFaults []error

func (m schemaFaults) Error() string { return errors.Join(m...).Error() }

// fits checks a body against its operation's schema. Unlike huma's own check, it stops after
// maxFaults and does not check opaque values.
func (s *server) fits(op *huma.Operation, r *http.Request) error {
	body, err := bodyOf(r)
	if err != nil || len(body) == 0 || op.RequestBody == nil {
		return nil
	}
	for _, content := range op.RequestBody.Content {
		return s.fit(content.Schema, body) // all media types have the same schema
	}
	return nil
}

// fit checks a value against a schema.
func (s *server) fit(schema *huma.Schema, body []byte) error {
	tree, err := treeOf(jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)))
	if err != nil {
		return strictjson.Unreadable(err)
	}
	check := bodyCheck{s.api.OpenAPI().Components.Schemas, huma.NewPathBuffer(nil, 0), &huma.ValidateResult{}}
	check.path.Push("body")
	check.value(schema, tree)
	if faults := check.res.Errors; len(faults) > 0 {
		return schemaFaults(faults[:min(len(faults), maxFaults)])
	}
	if zeros := zerosIn(tree, "", nil); len(zeros) > 0 {
		return &pawl.Error{Code: pawl.CodeInvalid, Fields: zeros[:min(len(zeros), maxFaults)]}
	}
	return nil
}

// positive lists the numbers whose zero value means in Go that they are not set. A body leaves
// them out; a 0 in it would be taken for no limit.
var positive = []string{"start_to_close_seconds", "schedule_to_start_seconds", "every_seconds", "max_seconds"}

// describePositive describes these numbers in all schemas.
func describePositive(schemas map[string]any) {
	for _, name := range positive {
		for _, schema := range schemas {
			if p := property(schema, name); p != nil {
				p["minimum"] = 1
			}
		}
	}
}

// zerosIn adds a fault to found for each 0 of one of these numbers in a body.
func zerosIn(v any, at jsontext.Pointer, found []pawl.Field) []pawl.Field {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if n, _ := v[name].(json.Number); slices.Contains(positive, name) && (n == "0" || n == "-0") {
				found = append(found, pawl.Field{Pointer: string(at.AppendToken(name)), Message: "is 0; it must be at least 1, or left out"})
			}
			found = zerosIn(v[name], at.AppendToken(name), found)
		}
	case []any:
		for i := range v {
			switch v[i].(type) {
			case map[string]any, []any:
				found = zerosIn(v[i], at.AppendToken(strconv.Itoa(i)), found)
			}
		}
	}
	return found
}

// refuseBody answers for a body that fits refused. Faults are written by huma, like those of
// parameters.
func (s *server) refuseBody(op *huma.Operation, w http.ResponseWriter, r *http.Request, err error) {
	var faults schemaFaults
	if !errors.As(err, &faults) {
		s.write(w, r, err)
		return
	}
	_ = huma.WriteErr(s.api, humachi.NewContext(op, r, w), http.StatusUnprocessableEntity, "", faults...) // the caller may have gone
}

// bodyCheck is a check of one body.
type bodyCheck struct {
	schemas huma.Registry
	path    *huma.PathBuffer
	res     *huma.ValidateResult
}

// value checks a value. In a long list it checks the first elements together, and then the
// others one by one until too many faults are found.
func (b *bodyCheck) value(s *huma.Schema, v any) {
	for s.Ref != "" {
		s = b.schemas.SchemaFromRef(s.Ref)
	}
	object, _ := v.(map[string]any)
	rest := map[string][]any{}
	for name, value := range object {
		if list, ok := value.([]any); ok && len(list) > maxFaults && s.Properties[name] != nil {
			rest[name] = list
		}
	}
	if len(rest) == 0 {
		huma.Validate(b.schemas, s, b.path, huma.ModeWriteToServer, v, b.res)
		return
	}
	cut := maps.Clone(object)
	for name, list := range rest {
		cut[name] = list[:maxFaults]
	}
	huma.Validate(b.schemas, s, b.path, huma.ModeWriteToServer, cut, b.res)
	for _, name := range slices.Sorted(maps.Keys(rest)) {
		b.list(name, s.Properties[name], rest[name])
	}
}

// list checks the length of a list, and the elements after the first maxFaults.
func (b *bodyCheck) list(name string, s *huma.Schema, list []any) {
	b.path.Push(name)
	defer b.path.Pop()
	for s.Ref != "" {
		s = b.schemas.SchemaFromRef(s.Ref)
	}
	if s.Items == nil {
		return
	}
	whole := *s
	whole.Items = &huma.Schema{}
	huma.Validate(b.schemas, &whole, b.path, huma.ModeWriteToServer, list, b.res)
	for i := maxFaults; i < len(list) && len(b.res.Errors) < maxFaults; i++ {
		b.path.PushIndex(i)
		b.value(s.Items, list[i])
		b.path.Pop()
	}
}

// treeOf reads the next value. Opaque values are replaced by empty ones.
func treeOf(dec *jsontext.Decoder) (any, error) {
	token, err := dec.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case '{':
		object := map[string]any{}
		for dec.PeekKind() != '}' {
			name, err := dec.ReadToken()
			if err != nil {
				return nil, err
			}
			read, key := treeOf, name.String()
			if slices.Contains(strictjson.Opaque, key) {
				read = kindOf
			}
			if object[key], err = read(dec); err != nil {
				return nil, err
			}
		}
		_, err = dec.ReadToken()
		return object, err
	case '[':
		list := []any{}
		for dec.PeekKind() != ']' {
			v, err := treeOf(dec)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = dec.ReadToken()
		return list, err
	case '"':
		return token.String(), nil
	case '0':
		return json.Number(token.String()), nil // 1e400 is a number too
	case 't', 'f':
		return token.Bool(), nil
	}
	return nil, nil
}

// kindOf reads past the next value and returns an empty one of its kind.
func kindOf(dec *jsontext.Decoder) (any, error) {
	switch dec.PeekKind() {
	case '{':
		return map[string]any{}, dec.SkipValue()
	case '[':
		return []any{}, dec.SkipValue()
	}
	return treeOf(dec)
}
