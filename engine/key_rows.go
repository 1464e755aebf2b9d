package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// keyRow is a stored idempotency key.
type keyRow struct {
	pawl.Key
	Hash, Token     string
	Expires, Locked int64 // 0 = never expires, not locked
	Code            *int  // the code of a call's stored answer, whose body is Response; nil = the key does not belong to a call
	Type, Location  string
}

// readKey reads a key. With lock it also locks the row, on databases with row locks.
func readKey(ctx context.Context, tx store.Tx, namespace, scope, hash string, lock bool) (keyRow, bool, error) {
	query := keySQL["read key"]
	if lock {
		query += "\n@lock"
	}
	rows, err := scanKeys(ctx, tx, query, namespace, scope, hash)
	if err != nil || len(rows) == 0 {
		return keyRow{}, false, err
	}
	return rows[0], true, nil
}

// keysPage lists keys, newest first, without those that belong to calls.
func keysPage(ctx context.Context, tx store.Tx, namespace string, q pawl.KeyFilter) (pawl.List[pawl.Key], error) {
	list, err := store.Pages(q.Page, func(k *keyRow) int { return len(k.Response) }, keyCursor, func(p pawl.Page) (pawl.List[keyRow], error) {
		q.Page = p
		return listKeys(ctx, tx, namespace, q)
	})
	out := pawl.List[pawl.Key]{Items: make([]pawl.Key, len(list.Items)), Next: list.Next}
	for i, k := range list.Items {
		out.Items[i] = k.Key
	}
	return out, err
}

func listKeys(ctx context.Context, tx store.Tx, namespace string, q pawl.KeyFilter) (pawl.List[keyRow], error) {
	var w store.Where
	w.And("k.namespace = ?", namespace)
	w.And("k.code IS NULL")
	if q.Status != "" {
		w.And("k.status = ?", q.Status)
	}
	if q.TaskID != "" {
		w.And("k.task_id = ?", store.TaskID(q.TaskID))
	}
	if q.ItemID != "" {
		w.And("k.item_id = ?", store.ItemID(q.ItemID))
	}
	if q.Cursor != "" {
		at, rest, _ := strings.Cut(q.Cursor, ".")
		n, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			return pawl.List[keyRow]{}, store.NotACursor()
		}
		hash, scope, _ := strings.Cut(rest, ".")
		w.And("(k.created_at, k.key_hash, k.scope) < (?, ?, ?)", n, hash, scope)
	}
	rows, err := scanKeys(ctx, tx, w.Text(keySQL["list keys"], "k.created_at DESC, k.key_hash DESC, k.scope DESC", q.Limit+1), w.Args...)
	return store.Paged(rows, q.Limit, keyCursor), err
}

func keyCursor(k keyRow) string {
	return fmt.Sprintf("%d.%s.%s", k.CreatedAt.UnixMicro(), k.Hash, k.Scope)
}

func scanKeys(ctx context.Context, tx store.Tx, query string, args ...any) ([]keyRow, error) {
	return store.All(ctx, tx, query, args, func(rows store.Rows, k *keyRow) error {
		var request, token, response, task, item store.Text
		var created int64
		var completed, expires, locked *int64
		var kind, location store.Text
		if err := rows.Scan(&k.Scope, &k.Hash, &request, &k.Status, &token, &response, (*store.TaskID)(&task), (*store.ItemID)(&item), &created,
			&completed, &expires, &locked,
			&k.Code, &kind, &location); err != nil {
			return err
		}
		k.Type, k.Location = string(kind), string(location)
		k.RequestHash, k.Token, k.TaskID, k.ItemID = string(request), string(token), string(task), string(item)
		k.Response = json.RawMessage(store.Raw(response))
		k.CreatedAt, k.CompletedAt = store.Stamp(created), store.StampOf(completed)
		k.ExpiresAt, k.LockedUntil = store.StampOf(expires), store.StampOf(locked)
		if expires != nil {
			k.Expires = *expires
		}
		if locked != nil {
			k.Locked = *locked
		}
		return nil
	})
}
