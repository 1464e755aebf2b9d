package engine

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// liveParts returns all live parts of an item, oldest first.
func liveParts(ctx context.Context, tx store.Tx, namespace, itemID string) (out []pawl.ItemPart, err error) {
	l := pawl.List[pawl.ItemPart]{}
	for more := true; more && err == nil; more = l.Next != "" {
		l, err = listParts(ctx, tx, namespace, pawl.PartFilter{ItemID: itemID, Page: pawl.Page{Limit: pawl.MaxParts, Cursor: l.Next}})
		out = append(out, l.Items...)
	}
	return out, err
}

// listParts lists parts of an item, oldest first.
func listParts(ctx context.Context, tx store.Tx, namespace string, q pawl.PartFilter) (pawl.List[pawl.ItemPart], error) {
	return store.ListPartsIn(ctx, tx, store.NewPageRoom(), namespace, q)
}
