// Package htmlpage fills templates of HTML. They are in the language of html/template, and what is
// filled in is escaped as there.
//
// A program that links html/template calls methods by names that are known only when it runs.
// The linker then keeps every exported method of every type: an eighth of the program. Here the
// caller says which methods templates call. The language is a part of the one of html/template:
// there are no pipes with |, no assignments with =, no break and no continue; and nothing is
// filled in outside of texts and quoted attributes.
package htmlpage

import (
	"fmt"
	"io"
	"maps"
	"reflect"
	"text/template/parse"
)

// HTML is a text that is HTML already: in a text it is filled in as it is.
type HTML string

// Set is a set of templates that call each other. It may be used by several goroutines.
type Set struct {
	trees   map[string]*parse.Tree
	funcs   map[string]any
	method  func(v reflect.Value, name string) reflect.Value
	escapes map[*parse.ActionNode][]escaper
}

// New returns a set without templates. funcs are the functions that templates may call, beside and, or, not, eq,
// ne, lt, le, gt, ge, len, index and print. method returns the method of a value that has this name, if templates may
// call it: it calls MethodByName with a constant, which keeps the methods of this name alone.
func New(funcs map[string]any, method func(v reflect.Value, name string) reflect.Value) *Set {
	s := &Set{funcs: maps.Clone(builtins), method: method, trees: map[string]*parse.Tree{}, escapes: map[*parse.ActionNode][]escaper{}}
	maps.Copy(s.funcs, funcs)
	return s
}

// With returns a set that has the templates of a text too. What the text has outside of definitions is a
// template of the given name.
func (s *Set) With(name, text string) (*Set, error) {
	found, err := parse.Parse(name, text, "", "", s.funcs)
	if err != nil {
		return nil, err
	}
	out := *s
	out.trees, out.escapes = maps.Clone(s.trees), maps.Clone(s.escapes)
	for name, tree := range found {
		if err := out.escape(tree); err != nil {
			return nil, fmt.Errorf("template %s: %w", name, err)
		}
		out.trees[name] = tree
	}
	return &out, nil
}

// Execute fills a template and writes it.
func (s *Set) Execute(w io.Writer, name string, data any) (err error) {
	defer func() {
		if p := recover(); p != nil {
			f, ours := p.(fault)
			if !ours {
				panic(p)
			}
			err = f.error
		}
	}()
	(&run{Set: s, w: w}).template(name, reflect.ValueOf(data))
	return nil
}

// fault is an error on its way out of Execute.
type fault struct{ error }

func fail(form string, args ...any) { panic(fault{fmt.Errorf(form, args...)}) }
