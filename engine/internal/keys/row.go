package keys

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

//go:embed keys.sql
var sqlFile embed.FS

var (
	texts = store.Texts(sqlFile, "keys.sql")
	byKey = texts["keys"] + "\nWHERE k.namespace = $1 AND k.scope = $2 AND k.key_hash = $3"
)

// stored is a stored idempotency key.
type stored struct {
	pawl.Key
	Hash, Token     string
	Expires, Locked int64 // 0 = never expires, not locked
	Code            *int  // the code of a call's stored answer, whose body is Response; nil = the key does not belong to a call
	Type, Location  string
}

// read reads a key. With lock it also locks the row, on databases with row locks.
func read(ctx context.Context, tx store.Tx, namespace, scope, hash string, lock bool) (stored, bool, error) {
	query := byKey
	if lock {
		query += "\n@lock"
	}
	rows, err := scan(ctx, tx, query, namespace, scope, hash)
	if err != nil || len(rows) == 0 {
		return stored{}, false, err
	}
	return rows[0], true, nil
}

// page lists keys, newest first, without those that belong to calls.
func page(ctx context.Context, tx store.Tx, namespace string, q pawl.KeyFilter) (pawl.List[pawl.Key], error) {
	list, err := store.Pages(q.Page, func(k *stored) int { return len(k.Response) }, cursor, func(p pawl.Page) (pawl.List[stored], error) {
		q.Page = p
		return list(ctx, tx, namespace, q)
	})
	out := pawl.List[pawl.Key]{Items: make([]pawl.Key, len(list.Items)), Next: list.Next}
	for i, k := range list.Items {
		out.Items[i] = k.Key
	}
	return out, err
}

func list(ctx context.Context, tx store.Tx, namespace string, q pawl.KeyFilter) (pawl.List[stored], error) {
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
			return pawl.List[stored]{}, store.NotACursor()
		}
		hash, scope, _ := strings.Cut(rest, ".")
		w.And("(k.created_at, k.key_hash, k.scope) < (?, ?, ?)", n, hash, scope)
	}
	rows, err := scan(ctx, tx, w.Text(texts["keys"], "k.created_at DESC, k.key_hash DESC, k.scope DESC", q.Limit+1), w.Args...)
	return store.Paged(rows, q.Limit, cursor), err
}

func cursor(k stored) string {
	return fmt.Sprintf("%d.%s.%s", k.CreatedAt.UnixMicro(), k.Hash, k.Scope)
}

func scan(ctx context.Context, tx store.Tx, query string, args ...any) ([]stored, error) {
	return store.All(ctx, tx, query, args, func(rows store.Rows, k *stored) error {
		var request, token, response, task, item store.Text
		var created int64
		var completed, expires, locked *int64
		var kind, location store.Text
		if err := rows.Scan(&k.Scope, &k.Hash, &request, &k.Status, &token, &response, (*store.TaskID)(&task), (*store.ItemID)(&item), &created,
			&completed, &expires, &locked, &k.Code, &kind, &location); err != nil {
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

// keep keeps a task, and the task of an item, from being deleted until the transaction ends: a key that refers to them
// has no foreign key. What is gone is not an error. "" is none.
func keep(ctx context.Context, tx store.Tx, namespace, taskID, itemID string) error {
	if taskID == "" && itemID == "" {
		return nil
	}
	_, err := store.TaskIDs(ctx, tx, texts["keep tasks"], store.TaskID(taskID), store.ItemID(itemID), namespace)
	return err
}

// change sends a statement about a key. It returns false if it changed none: for open, also when another open transaction
// inserts the key.
func change(ctx context.Context, tx store.Tx, query, namespace, scope, hash string, args ...any) (bool, error) {
	n, err := tx.Exec(ctx, texts[query], append([]any{namespace, scope, hash}, args...)...)
	return n == 1, err
}

// args are those of the statements that begin a key.
func (k *stored) args(now int64) []any {
	var expires *int64
	if k.Expires != 0 {
		expires = &k.Expires
	}
	return []any{k.RequestHash, k.Token, store.TaskID(k.TaskID), store.ItemID(k.ItemID), now, expires, k.Locked, k.Code}
}
