package store

import (
	"context"
	"errors"
)

// TokenSecret is what this database's task tokens are made under. It was made
// with the schema and never changes.
func TokenSecret(ctx context.Context, tx Tx) (string, error) {
	found, err := Strings(ctx, tx, apiKeySQL["secret"], "task tokens")
	if err == nil && len(found) != 1 {
		err = errors.New("the database has no secret for task tokens")
	}
	if err != nil {
		return "", err
	}
	return found[0], nil
}
