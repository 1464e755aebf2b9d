package server

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/internal/htmlpage"
)

//go:embed reference.html
var referenceText string

var ticked = regexp.MustCompile("`([^`]*)`")

// marked converts one of Pawl's own texts to HTML: what is between backticks becomes code.
func marked(text string) htmlpage.HTML {
	return htmlpage.HTML(ticked.ReplaceAllString(html.EscapeString(text), "<code>$1</code>"))
}

// word is a piece of the name of a kind of value: text, or the name of a schema.
type word struct{ Text, Ref string }

type (
	refRow struct {
		Name, In, Status, Means string
		Required                bool
		Kind                    []word
	}
	refCall struct {
		Name, Method, Path, Means string
		Params, Answers           []refRow
		Body                      []word
	}
	refGroup struct {
		Name, About string
		Calls       []refCall
	}
	refSchema struct {
		Name, Means string
		Members     []refRow
	}
)

// reference returns the description as a web page. The page has no script and loads nothing
// from elsewhere.
func reference(spec []byte) []byte {
	var doc map[string]any
	if err := json.Unmarshal(spec, &doc); err != nil {
		panic(err) // the server wrote it: this is a programmer's error
	}
	var page struct {
		Info    struct{ Title, Version, Description string }
		Groups  []refGroup
		Schemas []refSchema
	}
	info, parts := doc["info"], doc["components"]
	page.Info.Title, page.Info.Version = plain(within(info, "title")), plain(within(info, "version"))
	page.Info.Description = plain(within(info, "description"))
	for _, t := range tags() {
		g := refGroup{Name: t.Name, About: t.Description}
		for _, r := range api.Routes {
			if tag(r.Path) == t.Name {
				op := within(within(doc["paths"], r.Path), strings.ToLower(r.Method))
				g.Calls = append(g.Calls, refCall{r.Name, r.Method, r.Path, r.Means, refParams(op), refAnswers(op, parts),
					kind(content(within(op, "requestBody")))})
			}
		}
		page.Groups = append(page.Groups, g)
	}
	schemas, _ := within(parts, "schemas").(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		page.Schemas = append(page.Schemas, refSchemaOf(name, schemas[name]))
	}
	var b bytes.Buffer
	set, err := htmlpage.New(map[string]any{"text": marked}, noMethod).With("reference", referenceText)
	if err == nil {
		err = set.Execute(&b, "reference", page)
	}
	if err != nil {
		panic(err) // the template and its data are the server's own
	}
	return b.Bytes()
}

func noMethod(reflect.Value, string) reflect.Value { return reflect.Value{} }

func within(v any, name string) any {
	object, _ := v.(map[string]any)
	return object[name]
}

func plain(v any) string {
	s, _ := v.(string)
	return s
}

func refParams(op any) []refRow {
	list, _ := within(op, "parameters").([]any)
	out := make([]refRow, len(list))
	for i, p := range list {
		out[i] = refRow{Name: plain(within(p, "name")), In: plain(within(p, "in")), Means: plain(within(p, "description")),
			Kind: kind(within(p, "schema"))}
	}
	return out
}

func refAnswers(op, parts any) []refRow {
	answers, _ := within(op, "responses").(map[string]any)
	var out []refRow
	for _, status := range slices.Sorted(maps.Keys(answers)) {
		a := answers[status]
		if ref := plain(within(a, "$ref")); ref != "" {
			a = within(within(parts, "responses"), ref[strings.LastIndexByte(ref, '/')+1:])
		}
		out = append(out, refRow{Status: status, Means: plain(within(a, "description")), Kind: kind(content(a))})
	}
	return out
}

func refSchemaOf(name string, s any) refSchema {
	out := refSchema{Name: name, Means: plain(within(s, "description"))}
	required, _ := within(s, "required").([]any)
	members, _ := within(s, "properties").(map[string]any)
	for _, n := range slices.Sorted(maps.Keys(members)) {
		out.Members = append(out.Members, refRow{Name: n, Means: plain(within(members[n], "description")),
			Required: slices.Contains(required, any(n)), Kind: kind(members[n])})
	}
	return out
}

// content returns the schema of the first media type of a body or an answer.
func content(v any) any {
	all, _ := within(v, "content").(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		return within(all[name], "schema")
	}
	return nil
}

// kind describes the values of a schema.
func kind(schema any) []word {
	if schema == nil {
		return nil
	}
	if ref := plain(within(schema, "$ref")); ref != "" {
		return []word{{Ref: ref[strings.LastIndexByte(ref, '/')+1:]}}
	}
	if forms, ok := within(schema, "oneOf").([]any); ok {
		var out []word
		for i, f := range forms {
			if i > 0 {
				out = append(out, word{Text: " or "})
			}
			out = append(out, kind(f)...)
		}
		return out
	}
	if words, ok := within(schema, "enum").([]any); ok {
		var out []string
		for _, w := range words {
			out = append(out, fmt.Sprint(w))
		}
		return []word{{Text: strings.Join(out, " | ")}}
	}
	switch is := plain(within(schema, "type")); is {
	case "array":
		return append([]word{{Text: "list of "}}, kind(within(schema, "items"))...)
	case "":
		return []word{{Text: "any JSON"}}
	default:
		return []word{{Text: strings.TrimSpace(is + " " + plain(within(schema, "format")))}}
	}
}
