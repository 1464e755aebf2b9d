// Package tasktype has the commands of `pawl type`.
package tasktype

import (
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
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/internal/terminal"
)

// Command returns the command and its subcommands.
func Command(a *cli.App) *cobra.Command {
	noun := cli.Noun("type", "Types of tasks and items, with their rules", typePut(a), typeList(a), typeGet(a), typeSet(a), typeSuggest(a),
		typeRemove(a))
	return cli.Named(a, noun, func(ctx context.Context, s pawl.TypeReader) ([]string, error) {
		l, err := s.ListTypes(ctx, pawl.TypeFilter{Page: pawl.Page{Limit: pawl.MaxPage}})
		return cli.NamesOf(l, err, func(t pawl.Type) string { return t.Name })
	})
}

func typePut(a *cli.App) *cobra.Command {
	cmd := a.Verb(
		"put FILE…",
		"Register the types in files of YAML or JSON, or in all of a folder",
		cobra.MinimumNArgs(1),
		cli.With(a, func(ctx context.Context, s pawl.TypeKeeper, args []string) error {
			types, err := readTypes(a, args)
			if err != nil {
				return err
			}
			rs, err := s.PutTypes(a.ByUser(ctx), types)
			return cli.ShowEach(a, rs, err, showPut)
		}),
	)
	cmd.Example = "  pawl type put types/user.data.sync.yaml\n  pawl type put types"
	return cmd
}

func showPut(w io.Writer, refs []pawl.TypeRef) {
	rows := make([]string, len(refs))
	for i, r := range refs {
		rows[i] = terminal.Row(r.Name, r.Version, map[bool]string{true: "as it was", false: "new"}[r.Unchanged])
	}
	terminal.Table(w, "TYPE\tVERSION\t", rows)
}

func typeList(a *cli.App) *cobra.Command {
	var f pawl.TypeFilter
	var p cli.Pages
	cmd := a.Verb("list", "List registered types", cobra.NoArgs, cli.With(a, func(ctx context.Context, s pawl.TypeReader, _ []string) error {
		line := func(t pawl.Type) string {
			return terminal.Row(
				t.Name,
				t.Version,
				cmp.Or(string(t.Plan.Mode), "static"),
				cmp.Or(string(t.Approval.Mode), "none"),
				t.CreatedAt,
				t.RemovedAt,
				terminal.Clip(terminal.Printable(t.Description), 60),
			)
		}
		return cli.List(
			ctx,
			a,
			p,
			"TYPE\tVERSION\tPLAN\tAPPROVAL\tCREATED\tREMOVED\tDESCRIPTION",
			line,
			func(ctx context.Context, page pawl.Page) (pawl.List[pawl.Type], error) {
				f.Page = page
				return s.ListTypes(ctx, f)
			},
		)
	}))
	p.Flags(cmd)
	cmd.Flags().BoolVar(&f.Versions, "versions", false, "every version")
	cmd.Flags().BoolVar(&f.Removed, "removed", false, "removed ones too")
	return cmd
}

func typeGet(a *cli.App) *cobra.Command {
	var version int
	cmd := a.Verb(
		"get TYPE",
		"Show a type's definition, as JSON",
		cobra.ExactArgs(1),
		cli.With(a, func(ctx context.Context, s pawl.TypeReader, args []string) error {
			t, err := s.GetType(ctx, args[0], version)
			if err != nil {
				return err
			}
			return a.Encode(t, a.Config.Output != "json")
		}),
	)
	cmd.Flags().IntVar(&version, "version", 0, "this version (default: the current one)")
	return cmd
}

func typeRemove(a *cli.App) *cobra.Command {
	return a.Verb(
		"remove TYPE…",
		"Remove types from the registry; their tasks continue",
		cobra.MinimumNArgs(1),
		cli.With(a, func(ctx context.Context, s pawl.TypeKeeper, args []string) error {
			rs, err := s.RemoveTypes(a.ByUser(ctx), args)
			return cli.ShowEach(a, rs, err, func(w io.Writer, names []string) {
				for _, n := range names {
					terminal.Fields(w, "removed", n)
				}
			})
		}),
	)
}

// readTypes reads definitions: every .yaml, .yml and .json file of a folder.
func readTypes(a *cli.App, names []string) ([]pawl.Type, error) {
	var out []pawl.Type
	for _, name := range names {
		files := []string{name}
		if at, err := os.Stat(name); err == nil && at.IsDir() {
			files = nil
			for _, end := range []string{"*.json", "*.yaml", "*.yml"} {
				found, err := filepath.Glob(filepath.Join(name, end))
				if err != nil {
					return nil, cli.Invalid("%v", err)
				}
				files = append(files, found...)
			}
			if len(files) == 0 {
				return nil, cli.Invalid("%s contains no .yaml, .yml or .json file", name)
			}
		}
		for _, file := range files {
			types, err := readTypeFile(a, file)
			if err != nil {
				return nil, err
			}
			out = append(out, types...)
		}
	}
	return out, nil
}

// readTypeFile reads a file: JSON, or YAML with one or more definitions separated by
// ---.
func readTypeFile(a *cli.App, name string) ([]pawl.Type, error) {
	if strings.HasSuffix(name, ".json") {
		return cli.ReadList[pawl.Type](a, name)
	}
	text, err := a.ReadFile(name)
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
			return nil, cli.Invalid("%s: %v", name, err)
		}
		raw, err := json.Marshal(tree)
		if err != nil {
			return nil, cli.Invalid("%s: contains a value that JSON cannot represent: %v", name, err)
		}
		var t pawl.Type
		if err := cli.ReadJSON(name, raw, &t); err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

// PutTypes registers a folder's types before a server takes calls.
func PutTypes(ctx context.Context, a *cli.App, s pawl.TypeKeeper, folder string) error {
	if folder == "" {
		return nil
	}
	types, err := readTypes(a, []string{folder})
	if err != nil {
		return err
	}
	rs, err := s.PutTypes(ctx, types)
	for i := range rs {
		if err == nil && rs[i].Err != nil {
			return cli.Invalid("type %s: %v", types[i].Name, rs[i].Err)
		}
	}
	return err
}
