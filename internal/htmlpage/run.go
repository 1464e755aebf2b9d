package htmlpage

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"
)

// maxDepth bounds templates that call themselves.
const maxDepth = 1000

// run is one execution.
type run struct {
	*Set
	w     io.Writer
	depth int
	vars  []variable
}

type variable struct {
	name  string
	value reflect.Value
}

// template fills a template.
func (r *run) template(name string, dot reflect.Value) {
	tree := r.trees[name]
	if tree == nil {
		fail("there is no template %s", name)
	}
	if r.depth++; r.depth > maxDepth {
		fail("template %s calls itself too often", name)
	}
	outer := r.vars
	r.vars = []variable{{"$", dot}}
	r.list(dot, tree.Root)
	r.vars = outer
	r.depth--
}

func (r *run) list(dot reflect.Value, l *parse.ListNode) {
	if l == nil {
		return
	}
	for _, n := range l.Nodes {
		switch n := n.(type) {
		case *parse.TextNode:
			r.write(n.Text)
		case *parse.ActionNode:
			if v := r.pipe(dot, n.Pipe); len(n.Pipe.Decl) == 0 {
				r.write([]byte(filled(v, r.escapes[n])))
			}
		case *parse.TemplateNode:
			var data reflect.Value
			if n.Pipe != nil {
				data = r.pipe(dot, n.Pipe)
			}
			r.template(n.Name, data)
		case *parse.IfNode:
			r.branch(dot, &n.BranchNode, func(reflect.Value) reflect.Value { return dot })
		case *parse.WithNode:
			r.branch(dot, &n.BranchNode, func(v reflect.Value) reflect.Value { return v })
		case *parse.RangeNode:
			r.each(dot, n)
		}
	}
}

func (r *run) write(text []byte) {
	if _, err := r.w.Write(text); err != nil {
		panic(fault{err})
	}
}

// branch fills one way of a branch: the first with inner of its value if that is true.
func (r *run) branch(dot reflect.Value, n *parse.BranchNode, inner func(reflect.Value) reflect.Value) {
	mark := len(r.vars)
	if v := r.pipe(dot, n.Pipe); isTrue(v) {
		r.list(inner(v), n.List)
	} else {
		r.list(dot, n.ElseList)
	}
	r.vars = r.vars[:mark]
}

// each fills a template for each element of a list or a map; the keys of a map in order.
func (r *run) each(dot reflect.Value, n *parse.RangeNode) {
	mark := len(r.vars)
	over := indirect(r.value(dot, n.Pipe))
	once := func(key, value reflect.Value) {
		switch decl := n.Pipe.Decl; len(decl) {
		case 1:
			r.vars = append(r.vars, variable{decl[0].Ident[0], value})
		case 2:
			r.vars = append(r.vars, variable{decl[0].Ident[0], key}, variable{decl[1].Ident[0], value})
		}
		r.list(value, n.List)
		r.vars = r.vars[:mark]
	}
	switch over.Kind() {
	case reflect.Slice, reflect.Array:
		for i := range over.Len() {
			once(reflect.ValueOf(i), over.Index(i))
		}
	case reflect.Map:
		keys := over.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) }) // all have keys of text
		for _, key := range keys {
			once(key, over.MapIndex(key))
		}
	case reflect.Invalid:
	default:
		fail("range over %s, which is no list", over.Type())
	}
	if !over.IsValid() || over.Len() == 0 {
		r.list(dot, n.ElseList)
	}
}

func isTrue(v reflect.Value) bool {
	if !v.IsValid() {
		return false
	}
	is, _ := template.IsTrue(v.Interface())
	return is
}

// indirect returns what a pointer or an interface has; nothing for nil.
func indirect(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		if v.IsNil() {
			return reflect.Value{}
		}
		v = v.Elem()
	}
	return v
}

// filled returns the text of a value, escaped.
func filled(v reflect.Value, with []escaper) string {
	for v.Kind() == reflect.Interface && !v.IsNil() {
		v = v.Elem()
	}
	if !v.IsValid() {
		return ""
	}
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		if _, ok := v.Interface().(fmt.Stringer); ok {
			break
		}
		v = v.Elem()
	}
	text := fmt.Sprint(v.Interface())
	if len(with) == 0 && v.Type() != reflect.TypeFor[HTML]() {
		return escapeHTML(text)
	}
	for _, escape := range with {
		text = escape(text)
	}
	return text
}
