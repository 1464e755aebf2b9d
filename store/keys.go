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

// Keep keeps a task, and the task of an item, from being deleted until the transaction ends: a key that refers to them
// has no foreign key. What is gone is not an error. "" is none.
func Keep(ctx context.Context, tx Tx, namespace, taskID, itemID string) error {
	if taskID == "" && itemID == "" {
		return nil
	}
	_, err := TaskIDs(ctx, tx, keySQL["keep tasks"], TaskID(taskID), ItemID(itemID), namespace)
	return err
}

// OpenKey inserts a key. It returns false when the key exists or when another open
// transaction inserts it.
func OpenKey(ctx context.Context, tx Tx, namespace string, k KeyRow, now int64) (bool, error) {
	n, err := tx.Exec(ctx, keySQL["open key"], namespace, k.Scope, k.Hash, k.RequestHash, k.Token, TaskID(k.TaskID), ItemID(k.ItemID), now,
		nullable(k.Expires), k.Locked, k.Code)
	return n == 1, err
}

// ReopenKey starts again a key that counts as absent.
func ReopenKey(ctx context.Context, tx Tx, namespace string, k KeyRow, now int64) error {
	_, err := tx.Exec(ctx, keySQL["reopen key"], namespace, k.Scope, k.Hash, k.RequestHash, k.Token, TaskID(k.TaskID), ItemID(k.ItemID), now,
		nullable(k.Expires), k.Locked, k.Code)
	return err
}

// TakeOverKey gives a key to another run when its holder is gone or has failed. It does not expire before the run's lease ends.
func TakeOverKey(ctx context.Context, tx Tx, namespace string, k KeyRow) error {
	_, err := tx.Exec(ctx, keySQL["take over key"], namespace, k.Scope, k.Hash, k.Token, k.Locked)
	return err
}

// RenewKey extends the lease of a run until a time, and the key at least as long. It
// returns false when the token is not the key's.
func RenewKey(ctx context.Context, tx Tx, namespace, scope, hash, token string, until int64) (bool, error) {
	n, err := tx.Exec(ctx, keySQL["renew key"], namespace, scope, hash, token, until)
	return n == 1, err
}

// HitKey counts a begin that found a live key. replays is 1 when the stored answer was
// sent again.
func HitKey(ctx context.Context, tx Tx, namespace, scope, hash string, replays int) error {
	_, err := tx.Exec(ctx, keySQL["hit key"], namespace, scope, hash, replays)
	return err
}

// SettleKey stores the answer of a run. It returns false when the token is not the key's, or the
// key is one of a call.
func SettleKey(ctx context.Context, tx Tx, namespace, scope, hash, token, status, response string, now int64) (bool, error) {
	n, err := tx.Exec(ctx, keySQL["settle key"], namespace, scope, hash, token, status, response, now)
	return n == 1, err
}

// SettleAnswer stores the answer of a call. It returns false when the token is not the
// key's.
func SettleAnswer(ctx context.Context, tx Tx, namespace, scope, hash, token string, a pawl.Answer, now int64) (bool, error) {
	n, err := tx.Exec(ctx, keySQL["settle answer"], namespace, scope, hash, token, string(a.Body), a.Code, Text(a.Type), Text(a.Location), now)
	return n == 1, err
}

// DropKey removes a key whose run had no outcome, if the token is still the key's.
func DropKey(ctx context.Context, tx Tx, namespace, scope, hash, token string) error {
	_, err := tx.Exec(ctx, keySQL["drop key"], namespace, scope, hash, token)
	return err
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

// KeyStats counts a namespace's keys, without those that belong to calls.
func KeyStats(ctx context.Context, tx Tx, namespace string) (pawl.KeyStats, error) {
	var s pawl.KeyStats
	_, err := Row(ctx, tx, []any{&s.Pending, &s.Completed, &s.Failed, &s.Hits, &s.Misses, &s.Replays}, keySQL["key stats"], namespace)
	return s, err
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

func nullable(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}
