package server_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/server"
)

// described is the API's description, to be compared with the server's answers.
type described struct {
	doc, schemas map[string]any
}

func description(t *testing.T, srv *httptest.Server) described {
	t.Helper()
	doc := ask(t, srv, "GET", "/openapi.json", "").json
	return described{doc, doc["components"].(map[string]any)["schemas"].(map[string]any)}
}

var pathParam = regexp.MustCompile(`\\\{[^}]*\}`) // in a quoted template

// declarations are the operations of the description, by a pattern of their paths, the longest
// template first.
var declarations = sync.OnceValue(func() (out []declaration) {
	raw, err := os.ReadFile("testdata/openapi.json")
	var doc struct {
		Paths      map[string]map[string]struct{ Responses map[string]response }
		Components struct{ Responses map[string]response }
	}
	if err = cmp.Or(err, json.Unmarshal(raw, &doc)); err != nil {
		panic(err)
	}
	for path, ops := range doc.Paths {
		for method, op := range ops {
			for status, r := range op.Responses {
				if r.Ref != "" {
					op.Responses[status] = doc.Components.Responses[strings.TrimPrefix(r.Ref, "#/components/responses/")]
				}
			}
			match := regexp.MustCompile("^" + pathParam.ReplaceAllString(regexp.QuoteMeta(path), "[^/]+") + "$")
			out = append(out, declaration{strings.ToUpper(method), path, match, op.Responses})
		}
	}
	slices.SortFunc(out, func(a, b declaration) int { return len(b.path) - len(a.path) })
	return out
})

type declaration struct {
	method, path string
	match        *regexp.Regexp
	responses    map[string]response
}

type response struct {
	Ref     string `json:"$ref"`
	Content map[string]any
}

// held is a handler whose answers must have a status and a content type that are in the
// description.
func held(t *testing.T, h http.Handler) http.Handler {
	var mu sync.Mutex
	faults := map[string]bool{}
	t.Cleanup(func() {
		for f := range faults {
			t.Error(f)
		}
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := &answering{ResponseWriter: w}
		defer func() {
			if out.status == 0 || r.Context().Err() != nil { // no answer was sent
				return
			}
			if f := undeclared(r, out.status, out.Header().Get("Content-Type")); f != "" {
				mu.Lock()
				defer mu.Unlock()
				faults[f] = true
			}
		}()
		h.ServeHTTP(out, r)
	})
}

// answering records the status of an answer.
type answering struct {
	http.ResponseWriter
	status int
}

func (a *answering) WriteHeader(status int) {
	a.status = cmp.Or(a.status, status)
	a.ResponseWriter.WriteHeader(status)
}

func (a *answering) Write(p []byte) (int, error) {
	a.status = cmp.Or(a.status, http.StatusOK)
	return a.ResponseWriter.Write(p)
}

func (a *answering) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// undeclared returns what the description lacks for an answer; "" = nothing. 405 is the answer
// for paths that do not exist, as /v1/tasks/x:nothing.
func undeclared(r *http.Request, status int, kind string) string {
	for _, d := range declarations() {
		if d.method != r.Method || !d.match.MatchString(r.URL.EscapedPath()) {
			continue
		}
		response, described := d.responses[strconv.Itoa(status)]
		kind, _, _ = strings.Cut(kind, ";")
		_, named := response.Content[kind]
		if _, any := response.Content["*/*"]; any {
			named = true
		}
		switch {
		case status == http.StatusMethodNotAllowed:
		case !described:
			return fmt.Sprintf("%s %s: status %d is not described", d.method, d.path, status)
		case kind != "" && !named:
			return fmt.Sprintf("%s %s: status %d with %s is not described", d.method, d.path, status, kind)
		}
		return ""
	}
	return ""
}

// check compares an answer with the schema of its route and status. Members that the schema
// does not name are faults: the description must be complete.
func (d described) check(t *testing.T, r api.Route, out reply) {
	t.Helper()
	at := fmt.Sprintf("%s %s", r.Method, r.Path)
	path, _ := d.doc["paths"].(map[string]any)[r.Path].(map[string]any)
	op, _ := path[strings.ToLower(r.Method)].(map[string]any)
	response, _ := op["responses"].(map[string]any)[fmt.Sprint(out.StatusCode)].(map[string]any)
	if response == nil {
		t.Errorf("%s: status %d is not described", at, out.StatusCode)
		return
	}
	all, _ := response["content"].(map[string]any)
	content, _ := all["application/json"].(map[string]any)
	if content == nil {
		return // no body, or the description itself
	}
	var body any
	if err := json.Unmarshal([]byte(out.text), &body); err != nil {
		t.Errorf("%s: %v: %s", at, err, out.text)
		return
	}
	for _, fault := range d.faults(content["schema"], body, "") {
		t.Errorf("%s is described otherwise: %s\n%s", at, fault, out.text)
	}
}

// faults implements the part of JSON Schema that the description uses.
func (d described) faults(schema, value any, at string) []string {
	s, _ := schema.(map[string]any)
	if ref, ok := s["$ref"].(string); ok {
		return d.faults(d.schemas[strings.TrimPrefix(ref, "#/components/schemas/")], value, at)
	}
	if of, ok := s["oneOf"].([]any); ok {
		for _, one := range of {
			if len(d.faults(one, value, at)) == 0 {
				return nil
			}
		}
		return []string{at + " fits none of its forms"}
	}
	if want, ok := s["type"].(string); ok && !fits(want, value) {
		return []string{fmt.Sprintf("%s is %T, not %s", at, value, want)}
	}
	if words, ok := s["enum"].([]any); ok && !slices.Contains(words, value) {
		return []string{fmt.Sprintf("%s is %v, none of %v", at, value, words)}
	}
	var out []string
	switch v := value.(type) {
	case []any:
		for i, e := range v {
			out = append(out, d.faults(s["items"], e, fmt.Sprintf("%s/%d", at, i))...)
		}
	case map[string]any:
		out = d.memberFaults(s, v, at)
	}
	return out
}

func (d described) memberFaults(s map[string]any, v map[string]any, at string) []string {
	var out []string
	properties, _ := s["properties"].(map[string]any)
	required, _ := s["required"].([]any)
	for _, name := range required {
		if _, ok := v[name.(string)]; !ok {
			out = append(out, fmt.Sprintf("%s/%s is missing", at, name))
		}
	}
	for name, e := range v {
		switch p, ok := properties[name]; {
		case ok:
			out = append(out, d.faults(p, e, at+"/"+name)...)
		case s["additionalProperties"] != nil && s["additionalProperties"] != false:
			out = append(out, d.faults(s["additionalProperties"], e, at+"/"+name)...)
		case properties != nil:
			out = append(out, at+"/"+name+" is not named")
		}
	}
	return out
}

func fits(kind string, value any) bool {
	switch v := value.(type) {
	case nil:
		return kind == "null"
	case string:
		return kind == "string"
	case bool:
		return kind == "boolean"
	case float64:
		return kind == "number" || kind == "integer" && v == float64(int64(v))
	case []any:
		return kind == "array"
	}
	return kind == "object"
}

// Servers of a process share the description of the operations, which took most of the time to make one. Each says its own version.
func TestServersShareTheirDescription(t *testing.T) {
	said := map[string]bool{}
	for _, version := range []string{"1.2.3", "4.5.6"} {
		text := ask(t, serve(t, unreachable{}, server.Options{Version: version}), "GET", "/openapi.json", "").text
		if own := `"version": "` + version + `"`; strings.Count(text, own) != 1 {
			t.Errorf("the description does not say %s", own)
		}
		said[strings.Replace(text, version, "", 1)] = true
	}
	if len(said) != 1 {
		t.Error("two servers describe themselves differently")
	}
	if n := testing.AllocsPerRun(3, func() { server.New(unreachable{}, server.Options{}) }); n > 20_000 {
		t.Errorf("a further server makes %.0f allocations", n)
	}
}
