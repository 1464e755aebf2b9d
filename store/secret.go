package store

import (
	"context"
	"errors"
)

// TokenSecret returns the secret that signs this database's task tokens. It was created
// with the schema, and changes only when a copy is adopted.
func TokenSecret(ctx context.Context, tx Tx) (string, error) {
	found, err := Strings(ctx, tx, placeSQL["secret"], "task tokens")
	if err == nil && len(found) != 1 {
		err = errors.New("the database has no secret for task tokens")
	}
	if err != nil {
		return "", err
	}
	return found[0], nil
}
