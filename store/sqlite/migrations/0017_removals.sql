-- oldest: 1
-- +goose Up
-- SQLite has no triggers per statement, and drops no constraint of a table. It stays as it is.

SELECT 1;
