package apikeys

import (
	"context"
	"embed"
	"encoding/json"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/store"
)

//go:embed apikeys.sql
var sqlFile embed.FS

var texts = store.Texts(sqlFile, "apikeys.sql")

// row is an API key with the hash of its secret.
type row struct {
	pawl.APIKey
	SecretHash string
}

// insert inserts a key.
func insert(ctx context.Context, tx store.Tx, k row) error {
	_, err := tx.Exec(ctx, texts["create api key"], k.ID, k.Namespace, k.Name, store.List(k.Roles), store.Bit(k.Payloads), k.Rate,
		k.ActorType, k.ActorID, k.SecretHash, k.CreatedAt.UnixMicro(), kernel.Micros(k.ExpiresAt))
	return err
}

// list reads all keys, newest first.
func list(ctx context.Context, tx store.Tx) ([]row, error) {
	return read(ctx, tx, texts["api keys"])
}

// get reads one key.
func get(ctx context.Context, tx store.Tx, id string) (row, bool, error) {
	rows, err := read(ctx, tx, texts["api key"], id)
	if err != nil || len(rows) == 0 {
		return row{}, false, err
	}
	return rows[0], true, nil
}

// revoke revokes a key unless it is revoked already. It returns false when there is
// no such key.
func revoke(ctx context.Context, tx store.Tx, id string, now int64) (bool, error) {
	n, err := tx.Exec(ctx, texts["revoke api key"], id, now)
	return n == 1, err
}

// EndedOf returns those of the given keys that are revoked or have expired.
func EndedOf(ctx context.Context, tx store.Tx, ids []string) ([]string, error) {
	now, err := tx.Now(ctx)
	if err != nil {
		return nil, err
	}
	return store.Strings(ctx, tx, texts["ended of"], store.List(ids), now)
}

// use records the time of the last use of keys, and their refusals.
func use(ctx context.Context, tx store.Tx, uses []pawl.APIKeyUse, now int64) error {
	rows := make([][]any, len(uses))
	for i, u := range uses {
		rows[i] = []any{u.ID, now, u.Refusals}
	}
	return tx.ExecEach(ctx, texts["use api key"], rows)
}

func read(ctx context.Context, tx store.Tx, query string, args ...any) ([]row, error) {
	return store.All(ctx, tx, query, args, func(rows store.Rows, k *row) error {
		var roles string
		var payloads int
		var created int64
		var expires, revoked, used *int64
		err := rows.Scan(&k.ID, &k.Namespace, &k.Name, &roles, &payloads, &k.Rate, &k.ActorType, &k.ActorID, &k.SecretHash, &k.Refusals,
			&created, &expires, &revoked, &used)
		if err != nil {
			return err
		}
		k.Payloads, k.CreatedAt = payloads == 1, store.Stamp(created)
		k.ExpiresAt, k.RevokedAt, k.LastUsedAt = store.StampOf(expires), store.StampOf(revoked), store.StampOf(used)
		return json.Unmarshal([]byte(roles), &k.Roles)
	})
}
