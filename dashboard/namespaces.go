package dashboard

import (
	"context"
	"slices"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
)

// maxNamespaces is how many namespaces the bar of a page lists. With more, the name is typed in.
const maxNamespaces = 100

// namespaces lists those that a user may choose from, with the present one; none = they are not known, or too many.
func (d *server) namespaces(ctx context.Context, pass access.Pass, present string) []string {
	all := pass.Namespaces() // a user of some learns of no others
	if all == nil {
		if d.opts.Namespaces == nil {
			return nil
		}
		known, err := d.spaces.get("", func() ([]string, error) { return d.opts.Namespaces(ctx, maxNamespaces+1) })
		if err != nil || len(known) > maxNamespaces {
			return nil
		}
		all = append(slices.Clone(known), pawl.DefaultNamespace)
	}
	all = append(all, present)
	slices.Sort(all)
	return slices.Compact(all)
}

// mostElsewhere is how many other namespaces the overview of an empty one names.
const mostElsewhere = 20

// Elsewhere are namespaces that the user may go to from this one.
func (p pageData) Elsewhere() []string {
	out := slices.DeleteFunc(slices.Clone(p.Namespaces), func(name string) bool { return name == p.Namespace })
	return out[:min(len(out), mostElsewhere)]
}
