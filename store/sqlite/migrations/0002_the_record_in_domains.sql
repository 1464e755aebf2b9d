-- oldest: 1
-- +goose Up
-- Nothing here: SQLite reads a table's checks once for a statement it keeps.
SELECT 1;
