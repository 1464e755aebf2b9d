package htmlpage

import (
	"bytes"
	"html/template"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"text/template/parse"
	"time"
)

func noMethod(reflect.Value, string) reflect.Value { return reflect.Value{} }

// names are the escapers of html/template and those of this package.
var names = map[string]string{
	"_html_template_htmlescaper": "html", "_html_template_attrescaper": "html", "_html_template_rcdataescaper": "html",
	"_html_template_urlfilter": "filter", "_html_template_urlnormalizer": "normalize", "_html_template_urlescaper": "escape",
}

var ours = map[uintptr]string{
	reflect.ValueOf(escapeHTML).Pointer(): "html", reflect.ValueOf(filterURL).Pointer(): "filter",
	reflect.ValueOf(normalizeURL).Pointer(): "normalize", reflect.ValueOf(escapeURL).Pointer(): "escape",
}

// actions lists the actions of a template that fill something in.
func actions(n parse.Node, found []*parse.ActionNode) []*parse.ActionNode {
	switch n := n.(type) {
	case *parse.ListNode:
		if n != nil {
			for _, inner := range n.Nodes {
				found = actions(inner, found)
			}
		}
	case *parse.ActionNode:
		if len(n.Pipe.Decl) == 0 {
			found = append(found, n)
		}
	case *parse.IfNode:
		found = actions(n.ElseList, actions(n.List, found))
	case *parse.WithNode:
		found = actions(n.ElseList, actions(n.List, found))
	case *parse.RangeNode:
		found = actions(n.ElseList, actions(n.List, found))
	}
	return found
}

// stubs are functions of all names that a text calls.
func stubs(t *testing.T, text string) map[string]any {
	tree := parse.New("all")
	tree.Mode = parse.SkipFuncCheck
	set := map[string]*parse.Tree{}
	if _, err := tree.Parse(text, "", "", set); err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Interface, reflect.Pointer:
			if n, ok := v.Interface().(*parse.IdentifierNode); ok && builtins[n.Ident] == nil {
				out[n.Ident] = func(...any) string { return "" }
			} else if _, ok := v.Interface().(*parse.Tree); !ok && !v.IsNil() {
				walk(v.Elem())
			}
		case reflect.Struct:
			for i := range v.NumField() {
				if v.Type().Field(i).IsExported() {
					walk(v.Field(i))
				}
			}
		case reflect.Slice:
			for i := range v.Len() {
				walk(v.Index(i))
			}
		}
	}
	for _, tree := range set {
		walk(reflect.ValueOf(tree.Root))
	}
	return out
}

// What a template of the program fills in is escaped as html/template escapes it there.
func TestEscapersAreThoseOfHTMLTemplate(t *testing.T) {
	files, _ := filepath.Glob("../../dashboard/templates/*.html")
	var shared, pages []string
	for _, f := range files {
		if name := filepath.Base(f); strings.HasSuffix(name, ".part.html") || name == "layout.html" || name == "parts.html" {
			shared = append(shared, f)
		} else {
			pages = append(pages, f)
		}
	}
	compared := 0
	for _, of := range append([][]string{{"../../server/reference.html"}}, slices.Collect(chunked(pages, shared))...) {
		text, entry := "", "layout"
		for _, f := range of {
			raw, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			text += string(raw)
		}
		if len(of) == 1 {
			entry = "all"
		}
		funcs := stubs(t, text)
		theirs := template.Must(template.New("all").Funcs(funcs).Parse(text))
		_ = theirs.ExecuteTemplate(io.Discard, entry, nil) // it escapes, and then finds no data
		set, err := New(funcs, noMethod).With("all", text)
		if err != nil {
			t.Fatalf("%v: %v", of, err)
		}
		for _, tmpl := range theirs.Templates() {
			name, _, _ := strings.Cut(tmpl.Name(), "$htmltemplate")
			if tmpl.Tree == nil || set.trees[name] == nil {
				continue
			}
			want, got := actions(tmpl.Tree.Root, nil), actions(set.trees[name].Root, nil)
			for i := range want {
				var escapers, escaped []string
				for _, c := range want[i].Pipe.Cmds[1:] {
					escapers = append(escapers, names[c.Args[0].String()])
				}
				if set.escapes[got[i]] == nil {
					escaped = []string{"html"}
				}
				for _, e := range set.escapes[got[i]] {
					escaped = append(escaped, ours[reflect.ValueOf(e).Pointer()])
				}
				if escapers == nil { // html/template did not come here: no page calls it
					continue
				}
				compared++
				if !slices.Equal(escapers, escaped) {
					t.Errorf("%s: %s of %s is escaped by %v, not %v", of[0], got[i], name, escaped, escapers)
				}
			}
		}
	}
	if compared < 1000 {
		t.Errorf("only %d were compared", compared)
	}
}

// chunked returns the files of each page: its own and the shared ones.
func chunked(pages, shared []string) func(func([]string) bool) {
	return func(yield func([]string) bool) {
		for _, p := range pages {
			if !yield(append([]string{p}, shared...)) {
				return
			}
		}
	}
}

type named string

type view struct {
	Text    string
	Named   named
	Number  *int
	None    *int
	At      time.Duration
	List    []view
	Map     map[string]int
	Any     any
	Inner   *view
	Float   float64
	Yes     bool
	Counts  map[named]int64
	private int
}

func (v *view) Method(suffix string) string { return v.Text + suffix }

var hostile = []string{"", "a b", `"><script>alert(1)</script>`, "javascript:alert(1)", " JavaScript:alert(1)",
	"http://a/?x=1&y=2#z", "x:y/z",
	"ä€😀", "%zz%41", "a'b\"c`d", "\x00\x01", "+1", "../..", "//evil.example", "data:text/html,<b>", "mailto:a@b", "</title>", "--><b>"}

const everywhere = `<!doctype html><title>{{.Text}}</title><p class="a {{.Text}}" id='{{.Text}}'{{if .Yes}} hidden{{end}}>{{.Text}}</p>
<a href="{{.Text}}">x</a><a{{if .Yes}} class="{{.Text}}"{{end}} href="/a/{{.Text}}/b?c={{.Text}}&amp;d={{.Text}}#{{.Text}}">y</a>
<a href="{{.Text}}{{.Text}}?q={{.Text}}">z</a>
<form action="{{.Text}}"><input value="{{.Text}}"><textarea name="x">{{.Text}}</textarea></form>
<svg><path d="{{.Text}}"/></svg><div data-src="{{.Text}}" title="{{.Named}}">{{.Named}}</div>
<meta http-equiv="refresh" content="0; url={{.Text}}"><br/>{{.Number}} {{.At}} {{.Float}} {{.Yes}} {{.Any}}`

const language = `{{define "row"}}[{{.Text}}{{with .Inner}}:{{template "row" .}}{{end}}]{{end}}{{$t := .Text}}
{{range $i, $v := .List}}{{$i}}{{$v.Text}}{{$t}}
{{else}}none{{end}}{{range $k, $n := .Map}}{{$k}}={{$n}} {{end}}{{range .Map}}{{.}}{{end}}
{{if and .Yes (eq .Named "n" "m")}}a{{else if not .Yes}}b{{else}}c{{end}}
{{template "row" .}}{{with .None}}{{.}}{{else}}no{{end}}{{index .Counts .Named}} {{(index .List 0).Text}} {{len .List}} {{len .Map}}
{{if gt .Float 1.0}}much{{end}}{{if lt (len .List) 3}}few{{end}}{{if le 1 1}}{{print "x" 1 2}}{{end}}{{if ge 2 1}}y{{end}}{{if ne .Text ""}}z{{end}}
{{or .None .Text "last"}} {{and .Yes .Text}} {{.Method "!"}} {{join "a" .Text "b"}} {{.Map.one}} {{.Map.none}} {{.Any}} {{$.Inner.Text}} {{wants .Number .Float 3}}`

// The output is that of html/template, byte for byte.
func TestOutputIsThatOfHTMLTemplate(t *testing.T) {
	funcs := map[string]any{
		"join":  func(words ...string) string { return strings.Join(words, "-") },
		"wants": func(n int, f float64, more int64) int64 { return int64(n) + int64(f) + more },
	}
	method := func(v reflect.Value, name string) reflect.Value {
		if name == "Method" {
			return v.MethodByName("Method")
		}
		return reflect.Value{}
	}
	for _, text := range []string{everywhere, language} {
		theirs := template.Must(template.New("all").Funcs(funcs).Parse(text))
		set, err := New(funcs, method).With("all", text)
		if err != nil {
			t.Fatal(err)
		}
		for i, word := range hostile {
			n := i
			data := &view{Text: word, Named: named([]string{"n", "m", word}[i%3]), Number: &n, At: time.Minute, Yes: i%2 == 0,
				Float: float64(i) / 2, Any: any(word),
				List: []view{{Text: word}, {Text: "2"}}, Map: map[string]int{"one": 1, "a": 2, word: 3},
				Inner: &view{Text: word}, Counts: map[named]int64{"n": 7}, private: 1}
			var want, got bytes.Buffer
			if err := theirs.Execute(&want, data); err != nil {
				t.Fatal(err)
			}
			if err := set.Execute(&got, "all", data); err != nil {
				t.Fatal(err)
			}
			if want.String() != got.String() {
				t.Errorf("%q: got\n%s\nnot\n%s", word, got.String(), want.String())
			}
		}
	}
}

func TestWhereNothingMayBeFilledIn(t *testing.T) {
	for _, text := range []string{`<script>{{.}}</script>`, `<style>a{color:{{.}}}</style>`, `<a onclick="{{.}}">`, `<a style="{{.}}">`, `<a href={{.}}>`,
		`<a {{.}}>`, `<{{.}}>`, `<!-- {{.}} -->`, `<img srcset="{{.}}">`, `<a href="{{if .}}"{{end}}>`, `<a title="{{template "x"}}">{{define "x"}}{{end}}`,
		`{{. | print}}`, `{{$x := 1}}{{$x = 2}}`, `{{range .}}{{break}}{{end}}`, `<a href="`, `{{unknown}}`} {
		set, err := New(map[string]any{}, noMethod).With("all", text)
		if err == nil {
			err = set.Execute(io.Discard, "all", "x")
		}
		if err == nil {
			t.Errorf("%s was taken", text)
		}
	}
}

func TestFaultsOfTheData(t *testing.T) {
	for _, text := range []string{`{{.Nothing}}`, `{{.None.Text}}`, `{{index .List 5}}`, `{{.Method}}`, `{{range .Text}}{{end}}`, `{{lt .Text 1}}`, `{{len .Yes}}`,
		`{{define "x"}}{{template "x" .}}{{end}}{{template "x" .}}`, `{{template "none"}}`, `{{.private}}`, `{{not}}`, `{{.Inner.Text}}`} {
		set, err := New(map[string]any{}, noMethod).With("all", text)
		if err == nil {
			err = set.Execute(io.Discard, "all", &view{})
		}
		if err == nil {
			t.Errorf("%s was filled in", text)
		}
	}
	set, _ := New(map[string]any{"html": func() HTML { return "<b>" }}, noMethod).With("all", `{{html}}<a title="{{html}}">`)
	var b bytes.Buffer
	if err := set.Execute(&b, "all", nil); err != nil || b.String() != `<b><a title="&lt;b&gt;">` {
		t.Errorf("got %s, %v", &b, err)
	}
	if err := set.Execute(full{}, "all", nil); err != io.ErrShortWrite {
		t.Errorf("got %v", err)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, io.ErrShortWrite }
