package store

import (
	"context"
	"encoding/json"

	"github.com/pawl-work/pawl"
)

var apiKeySQL = Texts(sqlFiles, "apikeys.sql")

// APIKeyRow is an API key with the hash of its secret.
type APIKeyRow struct {
	pawl.APIKey
	SecretHash string
}

// CreateAPIKey inserts a key.
func CreateAPIKey(ctx context.Context, tx Tx, k APIKeyRow) error {
	var expires *int64
	if k.ExpiresAt != nil {
		us := k.ExpiresAt.UnixMicro()
		expires = &us
	}
	payloads := 0
	if k.Payloads {
		payloads = 1
	}
	_, err := tx.Exec(ctx, apiKeySQL["create api key"], k.ID, k.Namespace, k.Name, List(k.Roles), payloads, k.Rate, k.ActorType, k.ActorID,
		k.SecretHash,
		k.CreatedAt.UnixMicro(), expires)
	return err
}

// ListAPIKeys reads all keys, newest first.
func ListAPIKeys(ctx context.Context, tx Tx) ([]APIKeyRow, error) {
	return scanAPIKeys(ctx, tx, apiKeySQL["api keys"])
}

// GetAPIKey reads one key.
func GetAPIKey(ctx context.Context, tx Tx, id string) (APIKeyRow, bool, error) {
	rows, err := scanAPIKeys(ctx, tx, apiKeySQL["api key"], id)
	if err != nil || len(rows) == 0 {
		return APIKeyRow{}, false, err
	}
	return rows[0], true, nil
}

// RevokeAPIKey revokes a key unless it is revoked already. It returns false when there is
// no such key.
func RevokeAPIKey(ctx context.Context, tx Tx, id string, now int64) (bool, error) {
	n, err := tx.Exec(ctx, apiKeySQL["revoke api key"], id, now)
	return n == 1, err
}

// EndedOf returns those of the given keys that are revoked or have expired.
func EndedOf(ctx context.Context, tx Tx, ids []string) ([]string, error) {
	now, err := tx.Now(ctx)
	if err != nil {
		return nil, err
	}
	return Strings(ctx, tx, apiKeySQL["ended of"], List(ids), now)
}

// UseAPIKeys records the time of the last use of keys, and their refusals.
func UseAPIKeys(ctx context.Context, tx Tx, uses []pawl.APIKeyUse, now int64) error {
	rows := make([][]any, len(uses))
	for i, u := range uses {
		rows[i] = []any{u.ID, now, u.Refusals}
	}
	return tx.ExecEach(ctx, apiKeySQL["use api key"], rows)
}

// Attempt is one claim of an item.
type Attempt struct {
	ItemID string
	N      int
}

// KeysOfLeases returns the API keys that the leases of items were claimed with. A lease
// that was claimed without a key is not in the answer.
func KeysOfLeases(ctx context.Context, tx Tx, items []string) (map[Attempt]string, error) {
	rows, err := tx.Query(ctx, apiKeySQL["keys of leases"], ItemList(items))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[Attempt]string{}
	for rows.Next() {
		var a Attempt
		var key string
		if err := rows.Scan((*ItemID)(&a.ItemID), &a.N, &key); err != nil {
			return nil, err
		}
		out[a] = key
	}
	return out, rows.Err()
}

func scanAPIKeys(ctx context.Context, tx Tx, query string, args ...any) ([]APIKeyRow, error) {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []APIKeyRow
	for rows.Next() {
		var k APIKeyRow
		var roles string
		var payloads int
		var created int64
		var expires, revoked, used *int64
		if err := rows.Scan(&k.ID, &k.Namespace, &k.Name, &roles, &payloads, &k.Rate, &k.ActorType, &k.ActorID, &k.SecretHash, &k.Refusals,
			&created, &expires, &revoked, &used); err != nil {
			return nil, err
		}
		if err := json.Unmarshal([]byte(roles), &k.Roles); err != nil {
			return nil, err
		}
		k.Payloads, k.CreatedAt = payloads == 1, Stamp(created)
		k.ExpiresAt, k.RevokedAt, k.LastUsedAt = StampOf(expires), StampOf(revoked), StampOf(used)
		out = append(out, k)
	}
	return out, rows.Err()
}
