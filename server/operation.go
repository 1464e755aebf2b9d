package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"

	"github.com/pawl-work/pawl/api"
)

// These operations are registered here and not by huma.Register, which is a generic function: it
// is compiled once for each pair of an input and an answer, and 166 copies of it were an eighth
// of the program. The schemas, the description, the validation and the router are huma's.

// operation is one operation of the API. Its input is a struct: the fields with the tags path,
// query and header are parameters, Body is the body decoded, and RawBody its bytes. Its answer
// is a struct too: the fields with the tag header, Status and Body; a Body that is a function
// writes the answer itself.
type operation struct {
	*shape
	*server
	// run returns a pointer to the answer for a pointer to the input.
	run func(ctx context.Context, in any) (any, error)
}

// shape is what an operation takes and answers, on any server.
type shape struct {
	*huma.Operation
	route   api.Route
	changes bool // it is no GET
	late    bool // it may answer late
	in, out reflect.Type
	params  []param
	answers []reflect.StructField // of out
	body    []int                 // Body of the input; nil = it has none
	raw     []int                 // RawBody
	schemas huma.Registry
}

// param is a parameter of an operation.
type param struct {
	at       []int // the field of the input
	name, in string
	preset   string // for one that is not given
	required bool
	members  bool // it is a map, given as name[key]=value
	schema   *huma.Schema
}

// register registers the operation of a route, or describes it while the book is made.
func (s *server) register(r api.Route, in, out reflect.Type, run func(context.Context, any) (any, error)) {
	if s.mux == nil {
		s.book.add(r, in, out)
		return
	}
	o := &operation{shape: s.shapes[r.Name], server: s, run: run}
	humachi.NewAdapter(s.mux).Handle(o.Operation, o.handle)
}

// describeParams describes the parameters of a struct, also those of embedded structs.
func (o *shape) describeParams(of reflect.Type, at []int) {
	for i := range of.NumField() {
		f, here := of.Field(i), append(slices.Clone(at), i)
		if f.Anonymous && f.IsExported() {
			o.describeParams(f.Type, here)
			continue
		}
		p := param{at: here, preset: f.Tag.Get("default"), required: f.Tag.Get("required") == "true"}
		d := &huma.Param{}
		for _, p.in = range []string{"path", "query", "header"} {
			if p.name = f.Tag.Get(p.in); p.name != "" {
				break
			}
		}
		switch p.in {
		case "path":
			p.required = true
		case "query":
			p.name, d.Style, _ = strings.Cut(p.name, ",")
			p.members, d.Explode = d.Style != "", new(bool)
		}
		if p.name == "" || !f.IsExported() {
			continue
		}
		p.schema = huma.SchemaFromField(o.schemas, f, "")
		d.Name, d.In, d.Required, d.Schema, d.Description = p.name, p.in, p.required, p.schema, p.schema.Description
		o.Parameters = append(o.Parameters, d)
		o.params = append(o.params, p)
	}
}

// describeBody describes the body of the input, if it has one.
func (o *shape) describeBody() {
	body := &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{}}
	if f, ok := o.in.FieldByName("Body"); ok {
		o.body = f.Index
		body.Required = f.Type.Kind() != reflect.Pointer
		schema := huma.SchemaFromField(o.schemas, f, nameOf(o.in, "Body", o.OperationID+"Request"))
		body.Content["application/json"] = &huma.MediaType{Schema: schema}
	} else if f, ok = o.in.FieldByName("RawBody"); ok {
		o.raw = f.Index
		body.Content[f.Tag.Get("contentType")] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}
	} else {
		return
	}
	for _, m := range body.Content {
		m.Schema.PrecomputeMessages()
	}
	o.RequestBody = body
}

// nameOf names the schema of a member of a struct, if its type has no name.
func nameOf(of reflect.Type, member, otherwise string) string {
	if of.Name() != "" {
		return of.Name() + member
	}
	return otherwise
}

// describeAnswer describes the answer, and the refusals as the default.
func (o *shape) describeAnswer() {
	if o.Responses == nil {
		o.Responses = map[string]*huma.Response{}
	}
	status := strconv.Itoa(o.DefaultStatus)
	answer := o.Responses[status]
	if answer == nil {
		answer = &huma.Response{}
		o.Responses[status] = answer
	}
	answer.Description = cmp.Or(answer.Description, http.StatusText(o.DefaultStatus))
	for _, f := range o.answers {
		name := f.Tag.Get("header")
		switch {
		case name != "":
			if answer.Headers == nil {
				answer.Headers = map[string]*huma.Param{}
			}
			hint := nameOf(o.out, f.Name, o.OperationID+status+name)
			answer.Headers[name] = &huma.Header{Schema: huma.SchemaFromField(o.schemas, f, hint)}
		case f.Name == "Body" && f.Type.Kind() != reflect.Func:
			schema := huma.SchemaFromField(o.schemas, f, nameOf(o.out, f.Name, o.OperationID+"Response"))
			answer.Content = map[string]*huma.MediaType{"application/json": {Schema: schema}}
		}
	}
	if len(o.Responses) == 1 {
		schema := o.schemas.Schema(reflect.TypeFor[problem](), true, "problem")
		o.Responses["default"] = &huma.Response{Description: "Error", Content: map[string]*huma.MediaType{api.ProblemType: {Schema: schema}}}
	}
}

// input reads the input of a request. It answers a request whose input is refused.
func (o *operation) input(c huma.Context) (in any, ok bool) {
	v := reflect.New(o.in)
	if faults := o.read(c, v.Elem()); faults != nil {
		_ = huma.WriteErr(o.api, c, http.StatusUnprocessableEntity, "", faults...) // the caller may have gone
		return nil, false
	}
	return v.Interface(), true
}

// reply writes what an operation returned.
func (o *operation) reply(c huma.Context, out any, err error) {
	var p *problem
	switch {
	case errors.As(err, &p):
		for name, values := range p.headers {
			c.SetHeader(name, values[0])
		}
		o.send(c, p.Status, p)
	case err != nil:
		_ = huma.WriteErr(o.api, c, http.StatusInternalServerError, "", err)
	default:
		o.show(c, out)
	}
}

// show writes an answer; nil has no body.
func (o *operation) show(c huma.Context, answer any) {
	status, body := o.DefaultStatus, any(nil)
	out := reflect.ValueOf(answer)
	if !out.IsValid() || out.IsNil() {
		c.SetStatus(status)
		return
	}
	out = out.Elem()
	for _, f := range o.answers {
		v := out.FieldByIndex(f.Index)
		switch name := f.Tag.Get("header"); {
		case name != "" && v.String() != "":
			c.SetHeader(name, v.String())
		case f.Name == "Status":
			status = cmp.Or(int(v.Int()), status)
		case f.Name == "Body":
			body = v.Interface()
		}
	}
	switch body := body.(type) {
	case nil:
		c.SetStatus(status)
	case func(huma.Context):
		body(c)
	default:
		o.send(c, status, body)
	}
}

// send writes a value in the form that the caller takes.
func (o *operation) send(c huma.Context, status int, body any) {
	form, err := o.api.Negotiate(c.Header("Accept"))
	if err != nil {
		_ = huma.WriteErr(o.api, c, http.StatusNotAcceptable, "", err) // it is written in any form
		return
	}
	if p, ok := body.(*problem); ok {
		form = p.ContentType(form)
	}
	c.SetHeader("Content-Type", form)
	body, err = o.api.Transform(c, strconv.Itoa(status), body)
	if err != nil {
		panic(err) // what is answered is always JSON: this is a programmer's error
	}
	c.SetStatus(status)
	if status == http.StatusNoContent || status == http.StatusNotModified {
		return
	}
	if err := o.api.Marshal(c.BodyWriter(), form, body); err != nil && c.Context().Err() == nil {
		panic(err) // as above
	}
}

// read reads the input of a request.
func (o *operation) read(c huma.Context, in reflect.Value) (faults []error) {
	res, path := &huma.ValidateResult{}, huma.NewPathBuffer(nil, 0)
	if o.RejectUnknownQueryParameters {
		for _, name := range o.unknown(c) {
			path.Reset()
			path.Push("query")
			path.Push(name)
			res.Add(path, "", "unknown query parameter")
		}
		if res.Errors != nil {
			return res.Errors
		}
	}
	for i := range o.params {
		p := &o.params[i]
		path.Reset()
		path.Push(p.in)
		path.Push(p.name)
		value, given, fault := p.read(c, in.FieldByIndex(p.at))
		switch {
		case fault != "":
			res.Add(path, value, fault)
		case !given && p.required:
			res.Add(path, "", "required "+p.in+" parameter is missing")
		case given:
			huma.Validate(o.schemas, p.schema, path, huma.ModeWriteToServer, value, res)
		}
	}
	if o.RequestBody != nil {
		if err := o.readBody(c, in); err != nil {
			res.Errors = append(res.Errors, err)
		}
	}
	return res.Errors
}

// unknown returns the names in the query that are no parameters.
func (o *operation) unknown(c huma.Context) (names []string) {
	u := c.URL()
	if u.RawQuery == "" {
		return nil
	}
	for name := range u.Query() {
		if !slices.ContainsFunc(o.params, func(p param) bool {
			return p.in == "query" && (!p.members && p.name == name || p.members && strings.HasPrefix(name, p.name+"["))
		}) {
			names = append(names, name)
		}
	}
	return names
}

// read reads a parameter into its field. It returns its value, and whether it was given or has a
// preset.
func (p *param) read(c huma.Context, into reflect.Value) (value any, given bool, fault string) {
	if p.members {
		return p.readMembers(c, into)
	}
	text := ""
	switch p.in {
	case "path":
		text = c.Param(p.name)
	case "query":
		text = c.Query(p.name)
	case "header":
		text = c.Header(p.name)
	}
	if text = cmp.Or(text, p.preset); text == "" {
		return nil, false, ""
	}
	var err error
	switch into.Kind() {
	case reflect.String:
		into.SetString(text)
		return text, true, ""
	case reflect.Int, reflect.Int64:
		var n int64
		if n, err = strconv.ParseInt(text, 10, 64); err != nil {
			return text, true, "invalid integer"
		}
		into.SetInt(n)
		return n, true, ""
	case reflect.Bool:
		var is bool
		if is, err = strconv.ParseBool(text); err != nil {
			return text, true, "invalid boolean"
		}
		into.SetBool(is)
		return is, true, ""
	case reflect.Slice:
		return readList(text, into)
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return text, true, "invalid date/time for format " + time.RFC3339Nano
	}
	into.Set(reflect.ValueOf(at))
	return text, true, ""
}

// readList reads a list of texts or of numbers, with commas between them.
func readList(text string, into reflect.Value) (value any, given bool, fault string) {
	texts := strings.Split(text, ",")
	list := reflect.MakeSlice(into.Type(), len(texts), len(texts))
	into.Set(list)
	if list.Type().Elem().Kind() == reflect.String {
		for i, t := range texts {
			list.Index(i).SetString(t)
		}
		return texts, true, ""
	}
	for i, t := range texts {
		n, err := strconv.ParseInt(t, 10, 64)
		if err != nil {
			return text, true, "invalid integer"
		}
		list.Index(i).SetInt(n)
	}
	return list.Interface(), true, ""
}

// readMembers reads a map of texts.
func (p *param) readMembers(c huma.Context, into reflect.Value) (value any, given bool, fault string) {
	found, values := map[string]string{}, map[string]any{}
	u := c.URL()
	for name, texts := range u.Query() {
		if key, ok := strings.CutPrefix(name, p.name+"["); ok {
			key = strings.Trim(strings.Split(key, "[")[0], "]")
			found[key], values[key] = texts[0], texts[0]
		}
	}
	if len(found) == 0 {
		return nil, false, ""
	}
	into.Set(reflect.ValueOf(found))
	return values, true, ""
}

// readBody reads the body into the input. That it fits, fits has checked.
func (o *operation) readBody(c huma.Context, in reflect.Value) error {
	r, _ := humachi.Unwrap(c)
	_ = c.SetReadDeadline(time.Time{}) // the body is read: its bound is not one of the answer
	text, err := bodyOf(r)
	if err != nil {
		return err
	}
	if o.raw != nil {
		in.FieldByIndex(o.raw).SetBytes(text)
	}
	switch {
	case len(text) == 0 && o.RequestBody.Required:
		return errors.New("request body is required")
	case len(text) == 0 || o.body == nil:
		return nil
	}
	form, body := cmp.Or(c.Header("Content-Type"), "application/json"), in.FieldByIndex(o.body)
	if err := o.api.Unmarshal(form, text, body.Addr().Interface()); err != nil {
		return &huma.ErrorDetail{Location: "body", Message: err.Error(), Value: json.RawMessage(text)}
	}
	return nil
}
