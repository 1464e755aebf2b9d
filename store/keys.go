package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/pawl-work/pawl"
)

var keySQL = Texts(sqlFiles, "keys.sql")

// KeyRow is a stored idempotency key.
type KeyRow struct {
	pawl.Key
	Hash, Token     string
	Expires, Locked int64 // 0 = never expires, not locked
	Code            *int  // the code of a call's stored answer, whose body is Response; nil = the key does not belong to a call
	Type, Location  string
}

// ReadKey reads a key. With lock it also locks the row, on databases with row locks.
func ReadKey(ctx context.Context, tx Tx, namespace, scope, hash string, lock bool) (KeyRow, bool, error) {
	query := keySQL["read key"]
	if lock {
		query += "\n@lock"
	}
	rows, err := scanKeys(ctx, tx, query, namespace, scope, hash)
	if err != nil || len(rows) == 0 {
		return KeyRow{}, false, err
	}
	return rows[0], true, nil
}

// ListKeys lists keys, newest first, without those that belong to calls.
func ListKeys(ctx context.Context, tx Tx, namespace string, q pawl.KeyFilter) (pawl.List[pawl.Key], error) {
	list, err := Pages(q.Page, func(k *KeyRow) int { return len(k.Response) }, keyCursor, func(p pawl.Page) (pawl.List[KeyRow], error) {
		q.Page = p
		return listKeys(ctx, tx, namespace, q)
	})
	out := pawl.List[pawl.Key]{Items: make([]pawl.Key, len(list.Items)), Next: list.Next}
	for i, k := range list.Items {
		out.Items[i] = k.Key
	}
	return out, err
}

func listKeys(ctx context.Context, tx Tx, namespace string, q pawl.KeyFilter) (pawl.List[KeyRow], error) {
	var w where
	w.and("k.namespace = ?", namespace)
	w.and("k.code IS NULL")
	if q.Status != "" {
		w.and("k.status = ?", q.Status)
	}
	if q.TaskID != "" {
		w.and("k.task_id = ?", TaskID(q.TaskID))
	}
	if q.ItemID != "" {
		w.and("k.item_id = ?", ItemID(q.ItemID))
	}
	if q.Cursor != "" {
		at, rest, _ := strings.Cut(q.Cursor, ".")
		n, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			return pawl.List[KeyRow]{}, NotACursor()
		}
		hash, scope, _ := strings.Cut(rest, ".")
		w.and("(k.created_at, k.key_hash, k.scope) < (?, ?, ?)", n, hash, scope)
	}
	rows, err := scanKeys(ctx, tx, w.text(keySQL["list keys"], "k.created_at DESC, k.key_hash DESC, k.scope DESC", q.Limit+1), w.args...)
	return Paged(rows, q.Limit, keyCursor), err
}

func keyCursor(k KeyRow) string {
	return fmt.Sprintf("%d.%s.%s", k.CreatedAt.UnixMicro(), k.Hash, k.Scope)
}

func scanKeys(ctx context.Context, tx Tx, query string, args ...any) ([]KeyRow, error) {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []KeyRow
	for rows.Next() {
		var k KeyRow
		var request, token, response, task, item Text
		var created int64
		var completed, expires, locked *int64
		var kind, location Text
		if err := rows.Scan(&k.Scope, &k.Hash, &request, &k.Status, &token, &response, (*TaskID)(&task), (*ItemID)(&item), &created,
			&completed, &expires, &locked,
			&k.Code, &kind, &location); err != nil {
			return nil, err
		}
		k.Type, k.Location = string(kind), string(location)
		k.RequestHash, k.Token, k.TaskID, k.ItemID = string(request), string(token), string(task), string(item)
		k.Response = json.RawMessage(raw(response))
		k.CreatedAt, k.CompletedAt, k.ExpiresAt, k.LockedUntil = Stamp(created), StampOf(completed), StampOf(expires), StampOf(locked)
		if expires != nil {
			k.Expires = *expires
		}
		if locked != nil {
			k.Locked = *locked
		}
		out = append(out, k)
	}
	return out, rows.Err()
}
