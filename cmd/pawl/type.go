package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
)

func (a *app) typeCmd() *cobra.Command {
	return noun("type", "Types: what a kind of task is like", a.typePut(), a.typeList(), a.typeGet(), a.typeRemove())
}

func (a *app) typePut() *cobra.Command {
	cmd := a.verb("put FILE…", "Register the types in files of YAML or JSON, or in all of a folder", cobra.MinimumNArgs(1), with(a, func(ctx context.Context, s pawl.TypeKeeper, args []string) error {
		types, err := a.readTypes(args)
		if err != nil {
			return err
		}
		rs, err := s.PutTypes(a.byUser(ctx), types)
		return each(a, rs, err, func(w io.Writer, refs []pawl.TypeRef) {
			rows := make([]string, len(refs))
			for i, r := range refs {
				rows[i] = row(r.Name, r.Version, map[bool]string{true: "as it was", false: "new"}[r.Unchanged])
			}
			table(w, "TYPE\tVERSION\t", rows)
		})
	}))
	cmd.Example = "  pawl type put types/user.data.sync.yaml\n  pawl type put types"
	return cmd
}

func (a *app) typeList() *cobra.Command {
	var f pawl.TypeFilter
	var p pages
	cmd := a.verb("list", "List registered types", cobra.NoArgs, with(a, func(ctx context.Context, s pawl.TypeReader, _ []string) error {
		line := func(t pawl.Type) string {
			return row(t.Name, t.Version, cmp.Or(string(t.Plan.Mode), "static"), cmp.Or(string(t.Approval.Mode), "none"), t.CreatedAt, t.RemovedAt, clip(printable(t.Description), 60))
		}
		return list(ctx, a, p, "TYPE\tVERSION\tPLAN\tAPPROVAL\tCREATED\tREMOVED\tDESCRIPTION", line, func(ctx context.Context, page pawl.Page) (pawl.List[pawl.Type], error) {
			f.Page = page
			return s.ListTypes(ctx, f)
		})
	}))
	p.flags(cmd)
	cmd.Flags().BoolVar(&f.Versions, "versions", false, "every version")
	cmd.Flags().BoolVar(&f.Removed, "removed", false, "removed ones too")
	return cmd
}

func (a *app) typeGet() *cobra.Command {
	var version int
	cmd := a.verb("get TYPE", "Show a type's definition, as JSON", cobra.ExactArgs(1), with(a, func(ctx context.Context, s pawl.TypeReader, args []string) error {
		t, err := s.GetType(ctx, args[0], version)
		if err != nil {
			return err
		}
		return a.encode(t, a.cfg.Output != "json")
	}))
	cmd.Flags().IntVar(&version, "version", 0, "this version (default: the one that holds)")
	return cmd
}

func (a *app) typeRemove() *cobra.Command {
	return a.verb("remove TYPE…", "Take types off the registry; their tasks go on", cobra.MinimumNArgs(1), with(a, func(ctx context.Context, s pawl.TypeKeeper, args []string) error {
		rs, err := s.RemoveTypes(a.byUser(ctx), args)
		return each(a, rs, err, func(w io.Writer, names []string) {
			for _, n := range names {
				fields(w, "removed", n)
			}
		})
	}))
}

// readTypes reads definitions: of a folder every .yaml, .yml and .json file.
func (a *app) readTypes(names []string) ([]pawl.Type, error) {
	var out []pawl.Type
	for _, name := range names {
		files := []string{name}
		if at, err := os.Stat(name); err == nil && at.IsDir() {
			files = nil
			for _, end := range []string{"*.json", "*.yaml", "*.yml"} {
				found, err := filepath.Glob(filepath.Join(name, end))
				if err != nil {
					return nil, invalid("%v", err)
				}
				files = append(files, found...)
			}
			if len(files) == 0 {
				return nil, invalid("%s: no .yaml, .yml or .json file is there", name)
			}
		}
		for _, file := range files {
			types, err := a.readTypeFile(file)
			if err != nil {
				return nil, err
			}
			out = append(out, types...)
		}
	}
	return out, nil
}

// readTypeFile reads a file: JSON as it is, in YAML a definition or several with
// --- between them.
func (a *app) readTypeFile(name string) ([]pawl.Type, error) {
	if strings.HasSuffix(name, ".json") {
		return readList[pawl.Type](a, name)
	}
	text, err := a.readFile(name)
	if err != nil {
		return nil, err
	}
	var out []pawl.Type
	for _, doc := range strings.Split("\n"+string(text), "\n---") {
		if strings.TrimSpace(doc) == "" {
			continue
		}
		tree, err := yaml.Parser().Unmarshal([]byte(doc))
		if err != nil {
			return nil, invalid("%s: %v", name, err)
		}
		raw, err := json.Marshal(tree)
		if err != nil {
			return nil, invalid("%s: has what JSON cannot say: %v", name, err)
		}
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.DisallowUnknownFields()
		var t pawl.Type
		if err := dec.Decode(&t); err != nil {
			return nil, invalid("%s: %v", name, err)
		}
		out = append(out, t)
	}
	return out, nil
}

// putTypes registers a folder's types before a server takes calls.
func (a *app) putTypes(ctx context.Context, s pawl.TypeKeeper, folder string) error {
	if folder == "" {
		return nil
	}
	types, err := a.readTypes([]string{folder})
	if err != nil {
		return err
	}
	rs, err := s.PutTypes(ctx, types)
	for i := range rs {
		if err == nil && rs[i].Err != nil {
			return invalid("type %s: %v", types[i].Name, rs[i].Err)
		}
	}
	return err
}
