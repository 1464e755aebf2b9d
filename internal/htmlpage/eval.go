package htmlpage

import (
	"reflect"
	"strings"
	"text/template/parse"
)

// pipe evaluates a pipeline, which has one command, and declares its variable.
func (r *run) pipe(dot reflect.Value, p *parse.PipeNode) reflect.Value {
	v := r.value(dot, p)
	for _, d := range p.Decl {
		r.vars = append(r.vars, variable{d.Ident[0], v})
	}
	return v
}

func (r *run) value(dot reflect.Value, p *parse.PipeNode) reflect.Value {
	if len(p.Cmds) != 1 || p.IsAssign {
		fail("%s is not supported", p)
	}
	return r.command(dot, p.Cmds[0])
}

// command evaluates a command: a value, or a function or method with arguments.
func (r *run) command(dot reflect.Value, c *parse.CommandNode) reflect.Value {
	return r.arg(dot, c.Args[0], c.Args[1:]...)
}

// arg evaluates a value. args are those of a function or method.
func (r *run) arg(dot reflect.Value, n parse.Node, args ...parse.Node) reflect.Value {
	switch n := n.(type) {
	case *parse.DotNode:
		return dot
	case *parse.FieldNode:
		return r.fields(dot, dot, n.Ident, args)
	case *parse.ChainNode:
		return r.fields(dot, r.arg(dot, n.Node), n.Field, args)
	case *parse.VariableNode:
		return r.fields(dot, r.variable(n.Ident[0]), n.Ident[1:], args)
	case *parse.IdentifierNode:
		return r.function(dot, n.Ident, args)
	case *parse.PipeNode:
		return r.value(dot, n)
	case *parse.StringNode:
		return reflect.ValueOf(n.Text)
	case *parse.NilNode:
		return reflect.Value{}
	case *parse.BoolNode:
		return reflect.ValueOf(n.True)
	case *parse.NumberNode:
		if n.IsInt && !strings.Contains(n.Text, ".") {
			return reflect.ValueOf(int(n.Int64))
		}
		return reflect.ValueOf(n.Float64)
	}
	fail("%s is not supported", n)
	return reflect.Value{}
}

func (r *run) variable(name string) reflect.Value {
	for i := len(r.vars) - 1; i >= 0; i-- {
		if r.vars[i].name == name {
			return r.vars[i].value
		}
	}
	fail("there is no variable %s", name)
	return reflect.Value{}
}

// fields follows the names after a value; the last may be a method with arguments.
func (r *run) fields(dot, v reflect.Value, names []string, args []parse.Node) reflect.Value {
	for i, name := range names {
		if i == len(names)-1 {
			return r.field(dot, v, name, args)
		}
		v = r.field(dot, v, name, nil)
	}
	return v
}

// field is a method, a field or a member of a map.
func (r *run) field(dot, v reflect.Value, name string, args []parse.Node) reflect.Value {
	if v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if !v.IsValid() {
		fail("%s of nothing", name)
	}
	of := v
	if of.Kind() != reflect.Pointer && of.CanAddr() {
		of = of.Addr()
	}
	if m := r.method(of, name); m.IsValid() {
		return r.call(name, m, r.args(dot, args))
	}
	in := indirect(v)
	switch in.Kind() {
	case reflect.Struct:
		if f, ok := in.Type().FieldByName(name); ok && f.IsExported() {
			got, err := in.FieldByIndexErr(f.Index)
			if err != nil {
				panic(fault{err})
			}
			return got
		}
	case reflect.Map:
		return in.MapIndex(reflect.ValueOf(name).Convert(in.Type().Key()))
	case reflect.Invalid:
		fail("%s of a nil %s", name, v.Type())
	}
	fail("%s has no %s", v.Type(), name)
	return reflect.Value{}
}

func (r *run) args(dot reflect.Value, nodes []parse.Node) []reflect.Value {
	out := make([]reflect.Value, len(nodes))
	for i, n := range nodes {
		out[i] = r.arg(dot, n)
	}
	return out
}

// function calls a function. and and or evaluate no more than they need.
func (r *run) function(dot reflect.Value, name string, args []parse.Node) reflect.Value {
	if name == "and" || name == "or" {
		var v reflect.Value
		for _, n := range args {
			if v = r.arg(dot, n); isTrue(v) == (name == "or") {
				break
			}
		}
		return v
	}
	if name == "index" {
		return index(r.args(dot, args))
	}
	return r.call(name, reflect.ValueOf(r.funcs[name]), r.args(dot, args))
}

// call calls a function, with arguments in the types that it takes.
func (r *run) call(name string, fn reflect.Value, args []reflect.Value) reflect.Value {
	t := fn.Type()
	if n := t.NumIn(); len(args) < n && !t.IsVariadic() || len(args) < n-1 || len(args) > n && !t.IsVariadic() {
		fail("%s has %d arguments", name, len(args))
	}
	for i := range args {
		want := t.In(min(i, t.NumIn()-1))
		if t.IsVariadic() && i >= t.NumIn()-1 {
			want = want.Elem()
		}
		args[i] = as(name, args[i], want)
	}
	out := fn.Call(args)
	if len(out) > 1 {
		if err, _ := out[1].Interface().(error); err != nil {
			panic(fault{err})
		}
	}
	return out[0]
}

// as returns a value as an argument of a type.
func as(name string, v reflect.Value, want reflect.Type) reflect.Value {
	if v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	switch {
	case !v.IsValid():
		return reflect.Zero(want)
	case v.Type().AssignableTo(want):
		return v
	case v.Kind() == reflect.Pointer && v.Type().Elem().AssignableTo(want) && !v.IsNil():
		return v.Elem()
	case v.CanAddr() && v.Addr().Type().AssignableTo(want):
		return v.Addr()
	case v.CanInt() && v.Type() == reflect.TypeFor[int]() && v.Type().ConvertibleTo(want) && want.Kind() != reflect.String,
		v.Kind() == reflect.String && v.Type() == reflect.TypeFor[string]() && want.Kind() == reflect.String: // a constant
		return v.Convert(want)
	}
	fail("%s takes a %s, not a %s", name, want, v.Type())
	return v
}
