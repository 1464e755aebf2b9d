package store

import (
	"fmt"
	"strconv"
	"strings"
)

// Column is a column of a table and where a row keeps its value: a pointer, to scan
// into and to read the argument from.
type Column struct {
	Name string
	At   any
}

// Targets are what a row of the columns is scanned into.
func Targets(columns []Column) []any {
	out := make([]any, len(columns))
	for i := range columns {
		out[i] = columns[i].At
	}
	return out
}

// Values are the arguments that a row of the columns is written from.
func Values(columns []Column) []any {
	out := make([]any, len(columns))
	for i := range columns {
		out[i] = valueAt(columns[i].At)
	}
	return out
}

func valueAt(at any) any {
	switch v := at.(type) {
	case *string:
		return *v
	case *Text:
		return *v
	case *int:
		return *v
	case *int64:
		return *v
	case *bool:
		return *v
	case **int:
		return *v
	case **int64:
		return *v
	case **string:
		return *v
	}
	panic(fmt.Sprintf("store: a column is kept in a %T", at))
}

// columnLists are the lists that marks in statements name. A column that is
// added to a list is in every statement that has a mark of it:
//
//	@columns(list)            a, b, c
//	@columns(x.list)          x.a, x.b, x.c
//	@columns(list, b: d + 1)  a, d + 1, c
//	@values(list, $4)         $4, $5, $6
var columnLists = func() map[string][]Column {
	var r StateRow
	lists := map[string][]Column{
		"carried": r.Carried.Columns(),
		"kept":    r.Carried.Kept(),
		"ends":    r.endColumns(),
	}
	for i := range stateTables {
		lists[stateTables[i].name] = r.columns(&stateTables[i])
	}
	return lists
}()

// expandColumns puts the columns in the place of the marks that name a list.
func expandColumns(query string) string {
	return expand(expand(query, "@columns(", namesOf), "@values(", placeholders)
}

func listOf(name string) []Column {
	list, known := columnLists[name]
	if !known {
		panic("store: no list of columns " + name) // a statement's text is a programmer's error
	}
	return list
}

func namesOf(arg string) string {
	parts := strings.Split(arg, ", ")
	prefix, name, found := strings.Cut(parts[0], ".")
	if !found {
		prefix, name = "", parts[0]
	} else {
		prefix += "."
	}
	instead := map[string]string{}
	for _, p := range parts[1:] {
		column, expression, _ := strings.Cut(p, ": ")
		instead[column] = expression
	}
	var b strings.Builder
	for i, c := range listOf(name) {
		if i > 0 {
			b.WriteString(", ")
		}
		if expression, found := instead[c.Name]; found {
			b.WriteString(expression)
			delete(instead, c.Name)
			continue
		}
		b.WriteString(prefix + c.Name)
	}
	if len(instead) > 0 {
		panic("store: the list has no such column: @columns(" + arg + ")")
	}
	return b.String()
}

func placeholders(arg string) string {
	name, first, _ := strings.Cut(arg, ", $")
	n, err := strconv.Atoi(first)
	if err != nil {
		panic("store: where to begin? @values(" + arg + ")")
	}
	out := make([]string, len(listOf(name)))
	for i := range out {
		out[i] = "$" + strconv.Itoa(n+i)
	}
	return strings.Join(out, ", ")
}
