package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pressly/goose/v3/database"
)

func (m *migrator) create() []string {
	table := "CREATE TABLE IF NOT EXISTS " + m.table + " (\n  id          BIGINT PRIMARY KEY,\n  description TEXT NOT NULL,\n  executed_at BIGINT NOT NULL,\n  oldest      BIGINT NOT NULL\n)"
	if m.schema == "" {
		return []string{table}
	}
	return []string{"CREATE SCHEMA IF NOT EXISTS " + m.schema, table}
}

func (m *migrator) insert(x Migration) string {
	now := "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)"
	if m.schema != "" {
		now = "CAST(date_part('epoch', clock_timestamp()) * 1000000 AS BIGINT)"
	}
	return fmt.Sprintf("INSERT INTO %s (id, description, executed_at, oldest) VALUES (%d, '%s', %s, %d)", m.table, x.ID, x.Description, now, x.Oldest)
}

// journal is goose's view of our table. goose counts a migration 0 that we do
// not keep.
type journal struct{ m *migrator }

func (j journal) Tablename() string { return j.m.table }

func (j journal) TableExists(ctx context.Context, db database.DBTxConn) (found bool, err error) {
	if j.m.schema == "" {
		err = db.QueryRowContext(ctx, "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = '"+j.m.table+"'").Scan(&found)
	} else {
		err = db.QueryRowContext(ctx, "SELECT to_regclass('"+j.m.table+"') IS NOT NULL").Scan(&found)
	}
	return found, err
}

func (j journal) CreateVersionTable(ctx context.Context, db database.DBTxConn) error {
	for _, text := range j.m.create() {
		if _, err := db.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

func (j journal) Insert(ctx context.Context, db database.DBTxConn, req database.InsertRequest) error {
	i, found := slices.BinarySearchFunc(j.m.known, Migration{ID: req.Version}, byID)
	if !found {
		return nil
	}
	_, err := db.ExecContext(ctx, j.m.insert(j.m.known[i]))
	return err
}

func (j journal) Delete(context.Context, database.DBTxConn, int64) error {
	return errors.ErrUnsupported // forward only
}

func (j journal) GetMigration(ctx context.Context, db database.DBTxConn, version int64) (*database.GetMigrationResult, error) {
	var micros int64
	err := db.QueryRowContext(ctx, fmt.Sprintf("SELECT executed_at FROM %s WHERE id = %d", j.m.table, version)).Scan(&micros)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, database.ErrVersionNotFound
	}
	return &database.GetMigrationResult{Timestamp: time.UnixMicro(micros), IsApplied: true}, err
}

func (j journal) GetLatestVersion(ctx context.Context, db database.DBTxConn) (id int64, err error) {
	err = db.QueryRowContext(ctx, "SELECT COALESCE(MAX(id), 0) FROM "+j.m.table).Scan(&id)
	return id, err
}

func (j journal) ListMigrations(ctx context.Context, db database.DBTxConn) ([]*database.ListMigrationsResult, error) {
	rows, err := db.QueryContext(ctx, "SELECT id FROM "+j.m.table+" ORDER BY id DESC")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []*database.ListMigrationsResult
	for rows.Next() {
		x := &database.ListMigrationsResult{IsApplied: true}
		if err := rows.Scan(&x.Version); err != nil {
			return nil, err
		}
		out = append(out, x)
	}
	return append(out, &database.ListMigrationsResult{IsApplied: true}), rows.Err()
}
