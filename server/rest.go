package server

import (
	"cmp"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

type (
	// oneCall is a call whose subject is named by the path; its body is the rest of the call.
	oneCall struct {
		ID      string `path:"id" doc:"The id."`
		RawBody []byte `contentType:"application/json"`
	}
	// manyCalls are the calls of a batch.
	manyCalls struct {
		RawBody []byte `contentType:"application/json"`
	}
	// versionedCall is a oneCall about a version of a task.
	versionedCall struct {
		ID string `path:"id" doc:"The id."`
		Versioned
		RawBody []byte `contentType:"application/json"`
	}
)

// rest is what the body of a oneCall holds: the members of the call, without its subject and
// without those that the route leaves out.
type rest struct {
	call    reflect.Type // C
	body    reflect.Type
	fields  [][]int // the place in C of each field of body
	subject []int
}

func restOf(r api.Route, call reflect.Type) *rest {
	b := &rest{call: call}
	var fields []reflect.StructField
	members := reflect.VisibleFields(call)
	slices.SortStableFunc(members, func(a, b reflect.StructField) int { return len(a.Index) - len(b.Index) }) // as huma lists them
	for _, f := range members {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == r.Subject():
			b.subject = f.Index
			continue
		case name == "", slices.Contains(r.Without, name):
			continue
		case name == "version" && r.Has(api.TakesVersion):
			f.Tag += ` doc:"The version that the task must still have, as If-Match says it; absent = any."`
		}
		b.fields = append(b.fields, f.Index)
		fields = append(fields, reflect.StructField{Name: f.Name, Type: f.Type, Tag: f.Tag})
	}
	if b.subject == nil {
		panic("server: the call of " + r.Name + " has no " + r.Subject())
	}
	b.body = reflect.StructOf(fields)
	return b
}

// read reads a call.
func (b *rest) read(id string, text []byte) (reflect.Value, error) {
	call := reflect.New(b.call).Elem()
	if len(text) > 0 {
		body := reflect.New(b.body)
		if err := decode(text, body.Interface()); err != nil {
			var f fault
			if errors.As(err, &f) {
				err = pawl.Invalid(f.Pointer, "%s", f.Message)
			}
			return call, err
		}
		for i, at := range b.fields {
			call.FieldByIndex(at).Set(body.Elem().Field(i))
		}
	}
	call.FieldByIndex(b.subject).SetString(id)
	return call, nil
}

// versioned reads a call whose version is named by If-Match or by the body.
func (b *rest) versioned(in *versionedCall) (reflect.Value, error) {
	call, err := b.read(in.ID, in.RawBody)
	if err != nil {
		return call, err
	}
	version := call.FieldByName("Version").Addr().Interface().(**int)
	*version, err = in.version(*version)
	return call, err
}

// describe describes the body of a route. A PATCH without a body is refused, also if no member
// is required.
func (b *rest) describe(o *huma.OpenAPI, r api.Route) {
	name := cmp.Or(r.Body, strings.TrimSuffix(b.call.Name(), "Call")+"Body")
	schema := huma.SchemaFromType(o.Components.Schemas, b.body)
	o.Components.Schemas.Map()[name] = schema
	op := o.Paths[r.Path].Post
	if r.Method == http.MethodPatch {
		op = o.Paths[r.Path].Patch
	}
	op.RequestBody = &huma.RequestBody{
		Required: len(schema.Required) > 0 || r.Method == http.MethodPatch,
		Content:  map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{Ref: "#/components/schemas/" + name}}},
	}
}
