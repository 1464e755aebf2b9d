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

var texts = store.Texts(sqlFile, "keys.sql")

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
	query := texts["read"]
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
	rows, err := scan(ctx, tx, w.Text(texts["list"], "k.created_at DESC, k.key_hash DESC, k.scope DESC", q.Limit+1), w.Args...)
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

// keep keeps a task, and the task of an item, from being deleted until the transaction ends: a key that refers to them
// has no foreign key. What is gone is not an error. "" is none.
func keep(ctx context.Context, tx store.Tx, namespace, taskID, itemID string) error {
	if taskID == "" && itemID == "" {
		return nil
	}
	_, err := store.TaskIDs(ctx, tx, texts["keep tasks"], store.TaskID(taskID), store.ItemID(itemID), namespace)
	return err
}

// open inserts a key. It returns false when the key exists or when another open
// transaction inserts it.
func open(ctx context.Context, tx store.Tx, namespace string, k stored, now int64) (bool, error) {
	n, err := tx.Exec(ctx, texts["open"], namespace, k.Scope, k.Hash, k.RequestHash, k.Token,
		store.TaskID(k.TaskID), store.ItemID(k.ItemID), now, nullable(k.Expires), k.Locked, k.Code)
	return n == 1, err
}

// reopen starts again a key that counts as absent.
func reopen(ctx context.Context, tx store.Tx, namespace string, k stored, now int64) error {
	_, err := tx.Exec(ctx, texts["reopen"], namespace, k.Scope, k.Hash, k.RequestHash, k.Token,
		store.TaskID(k.TaskID), store.ItemID(k.ItemID), now, nullable(k.Expires), k.Locked, k.Code)
	return err
}

// takeOver gives a key to another run when its holder is gone or has failed. It does not expire before the run's lease ends.
func takeOver(ctx context.Context, tx store.Tx, namespace string, k stored) error {
	_, err := tx.Exec(ctx, texts["take over"], namespace, k.Scope, k.Hash, k.Token, k.Locked)
	return err
}

// renewKey extends the lease of a run until a time, and the key at least as long. It
// returns false when the token is not the key's.
func renew(ctx context.Context, tx store.Tx, namespace, scope, hash, token string, until int64) (bool, error) {
	n, err := tx.Exec(ctx, texts["renew"], namespace, scope, hash, token, until)
	return n == 1, err
}

// hit counts a begin that found a live key. replays is 1 when the stored answer was
// sent again.
func hit(ctx context.Context, tx store.Tx, namespace, scope, hash string, replays int) error {
	_, err := tx.Exec(ctx, texts["hit"], namespace, scope, hash, replays)
	return err
}

// settleKey stores the answer of a run. It returns false when the token is not the key's, or the
// key is one of a call.
func settle(ctx context.Context, tx store.Tx, namespace, scope, hash, token, status, response string, now int64) (bool, error) {
	n, err := tx.Exec(ctx, texts["settle"], namespace, scope, hash, token, status, response, now)
	return n == 1, err
}

// settleAnswer stores the answer of a call. It returns false when the token is not the
// key's.
func settleAnswer(ctx context.Context, tx store.Tx, namespace, scope, hash, token string, a pawl.Answer, now int64) (bool, error) {
	n, err := tx.Exec(ctx, texts["answer"], namespace, scope, hash, token, string(a.Body), a.Code,
		store.Text(a.Type), store.Text(a.Location), now)
	return n == 1, err
}

// drop removes a key whose run had no outcome, if the token is still the key's.
func drop(ctx context.Context, tx store.Tx, namespace, scope, hash, token string) error {
	_, err := tx.Exec(ctx, texts["drop"], namespace, scope, hash, token)
	return err
}

func nullable(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}
