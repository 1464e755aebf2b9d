package store

import (
	"fmt"
	"strconv"
	"strings"
)

// Column is a column of a table. At is a pointer to where a row keeps its value: rows are
// scanned into it, and arguments are read from it.
type Column struct {
	Name string
	At   any
}

// Targets returns the pointers that a row of the columns is scanned into.
func Targets(columns []Column) []any {
	out := make([]any, len(columns))
	for i := range columns {
		out[i] = columns[i].At
	}
	return out
}

// Values returns the arguments to write a row of the columns.
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
	case *TaskID:
		return *v
	case *ItemID:
		return *v
	case *StateCode:
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
	case **TaskID:
		if *v == nil {
			return nil
		}
		return **v
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
//	@arrays(list, $4)         $4::text[], $5::int[], $6::text[]
//	@typed(list, $4)          $4::text, $5::int, $6::text
//	@filled(list, $4)         COALESCE(a, ($4::text[])[1]) AS a, …
//	@added(list)              a = pawl.queue_minutes.a + excluded.a, …
//	@summed(list)             CAST(SUM(m.a) AS bigint), …
//
// @arrays and @filled unnest columns. An array has only its first value if all values are
// the same, and no value if all are NULL. The first number may be written as
// $4 + list + list, for columns that follow those of other lists.
var columnLists = func() map[string][]Column {
	var r StateRow
	lists := map[string][]Column{
		"carried":        r.Carried.Columns(),
		"given":          r.Carried.Given(),
		"kept":           r.Carried.Kept(),
		"finished_items": r.endColumns(),
		"item":           new(itemScan).columns(),
		"task":           new(taskScan).columns(),
		"new_task":       new(NewTask).Columns(),
		"alike_task":     new(NewTask).Alike(),
		"item_deps":      {{"needs_id", new(ItemID)}, {"item_id", new(ItemID)}},
		"minute":         countedColumns(minuteColumns),
		"minute_waits":   countedColumns(minuteColumns[waitColumn:runColumn]),
		"minute_runs":    countedColumns(minuteColumns[runColumn:]),
	}
	for i := range stateTables {
		lists[stateTables[i].name] = r.columns(&stateTables[i])
	}
	return lists
}()

// ExpandColumns replaces the marks that name a list by its columns.
func ExpandColumns(query string) string {
	for mark, made := range map[string]func(arg string) string{"@columns(": namesOf, "@values(": placeholders, "@typed(": typed,
		"@arrays(": arrays, "@filled(": filled, "@added(": added, "@summed(": summed} {
		query = expand(query, mark, made)
	}
	return query
}

func listOf(name string) []Column {
	list, known := columnLists[name]
	if !known {
		panic("store: no list of columns " + name) // the texts of statements are part of the program
	}
	return list
}

func added(list string) string {
	return each(list, func(c string) string { return c + " = pawl.queue_minutes." + c + " + excluded." + c })
}

func summed(list string) string {
	return each(list, func(c string) string { return "CAST(SUM(m." + c + ") AS bigint)" })
}

func each(list string, made func(column string) string) string {
	var out []string
	for _, c := range listOf(list) {
		out = append(out, made(c.Name))
	}
	return strings.Join(out, ", ")
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
	return numbered(arg, func(c Column, n int) string { return fmt.Sprintf("$%d", n) })
}

func arrays(arg string) string {
	return numbered(arg, func(c Column, n int) string { return fmt.Sprintf("$%d::%s[]", n, elementOf(c)) })
}

func typed(arg string) string {
	return numbered(arg, func(c Column, n int) string { return fmt.Sprintf("$%d::%s", n, elementOf(c)) })
}

func filled(arg string) string {
	return numbered(arg, func(c Column, n int) string {
		if c.Nullable() {
			return c.Name
		}
		return fmt.Sprintf("COALESCE(%s, ($%d::%s[])[1]) AS %s", c.Name, n, elementOf(c), c.Name)
	})
}

// numbered writes each column of a list with its number. arg is "list, $4" or "list, $4 +
// other + other".
func numbered(arg string, one func(c Column, n int) string) string {
	name, first, _ := strings.Cut(arg, ", $")
	terms := strings.Split(first, " + ")
	n, err := strconv.Atoi(terms[0])
	if err != nil {
		panic("store: there is no number in the mark (" + arg + ")")
	}
	for _, list := range terms[1:] {
		n += len(listOf(list))
	}
	out := make([]string, len(listOf(name)))
	for i, c := range listOf(name) {
		out[i] = one(c, n+i)
	}
	return strings.Join(out, ", ")
}

// Nullable says whether the column may be NULL.
func (c Column) Nullable() bool {
	switch c.At.(type) {
	case *Text, **string, **int, **int64, **TaskID:
		return true
	}
	return false
}

// elementOf returns PostgreSQL's name for the type of the column's values.
func elementOf(c Column) string {
	switch c.At.(type) {
	case *int, **int, *bool:
		return "int"
	case *int64, **int64:
		return "bigint"
	case *TaskID, *ItemID, **TaskID:
		return "uuid"
	}
	return "text"
}
