package store

import "context"

// Savepoint is a point in a transaction that the transaction can be rolled back to.
// Savepoints nest: end the inner one first.
type Savepoint struct{ tx Tx }

// SetSavepoint sets a savepoint. End it with Release or Rollback.
func SetSavepoint(ctx context.Context, tx Tx) (*Savepoint, error) {
	if _, err := tx.Exec(ctx, "SAVEPOINT part"); err != nil {
		return nil, err
	}
	return &Savepoint{tx}, nil
}

// Release ends the savepoint and keeps what was written since.
func (s *Savepoint) Release(ctx context.Context) error {
	_, err := s.tx.Exec(ctx, "RELEASE SAVEPOINT part")
	return err
}

// Rollback undoes what was written since the savepoint, and ends it.
func (s *Savepoint) Rollback(ctx context.Context) error {
	if _, err := s.tx.Exec(ctx, "ROLLBACK TO SAVEPOINT part"); err != nil {
		return err
	}
	return s.Release(ctx) // otherwise the release of an outer savepoint would end this one
}
