package htmlpage

import (
	"cmp"
	"fmt"
	"reflect"
)

// builtins are the functions that all templates have. Those that are true are carried out by run.function.
var builtins = map[string]any{
	"and": true, "or": true, "index": true,
	"not":   func(v any) bool { return !isTrue(reflect.ValueOf(v)) },
	"eq":    equal,
	"ne":    func(a, b any) bool { return !equal(a, b) },
	"lt":    func(a, b any) bool { return compare(a, b) < 0 },
	"le":    func(a, b any) bool { return compare(a, b) <= 0 },
	"gt":    func(a, b any) bool { return compare(a, b) > 0 },
	"ge":    func(a, b any) bool { return compare(a, b) >= 0 },
	"len":   length,
	"print": fmt.Sprint,
}

func length(v any) int {
	in := indirect(reflect.ValueOf(v))
	switch in.Kind() {
	case reflect.Slice, reflect.Array, reflect.Map, reflect.String:
		return in.Len()
	}
	fail("%T has no length", v)
	return 0
}

// equal reports whether a value equals one of the others.
func equal(a any, others ...any) bool {
	for _, b := range others {
		if a == nil || b == nil {
			if a == b {
				return true
			}
			continue
		}
		if compare(a, b) == 0 {
			return true
		}
	}
	return false
}

// compare compares two numbers, texts or truths.
func compare(a, b any) int {
	x, y := indirect(reflect.ValueOf(a)), indirect(reflect.ValueOf(b))
	switch {
	case x.Kind() == reflect.String && y.Kind() == reflect.String:
		return cmp.Compare(x.String(), y.String())
	case x.CanInt() && y.CanInt():
		return cmp.Compare(x.Int(), y.Int())
	case x.CanUint() && y.CanUint():
		return cmp.Compare(x.Uint(), y.Uint())
	case x.CanFloat() && y.CanFloat():
		return cmp.Compare(x.Float(), y.Float())
	case x.Kind() == reflect.Bool && y.Kind() == reflect.Bool:
		if x.Bool() == y.Bool() {
			return 0
		}
		return 1
	}
	fail("%T and %T are not compared", a, b)
	return 0
}

// index returns the element of a list, or of a map with a key of text.
func index(args []reflect.Value) reflect.Value {
	if len(args) != 2 {
		fail("index has %d arguments", len(args))
	}
	of, at := indirect(args[0]), indirect(args[1])
	switch of.Kind() {
	case reflect.Slice, reflect.Array:
		if i := int(at.Int()); i >= 0 && i < of.Len() {
			return of.Index(i)
		}
		fail("there is no element %d of %d", at.Int(), of.Len())
	case reflect.Map:
		if v := of.MapIndex(at.Convert(of.Type().Key())); v.IsValid() {
			return v
		}
		return reflect.Zero(of.Type().Elem())
	}
	fail("index of a %s", args[0].Kind())
	return reflect.Value{}
}
