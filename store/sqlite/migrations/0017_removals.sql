-- oldest: 1
-- +goose Up
-- SQLite has no triggers per statement. Its triggers stay as they are.

SELECT 1;
