package postgres_test

import "testing"

// The columns that have values of callers compress them with lz4, where the server has it.
func TestLargeValuesAreCompressedWithLZ4(t *testing.T) {
	h := newDatabase(t)
	if h.one("SELECT 1 FROM pg_settings WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)") == "" {
		t.Skip("this server was built without lz4")
	}
	if left := h.one(`SELECT c.relname || '.' || a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
		WHERE c.relnamespace = '` + h.schema + `'::regnamespace AND c.relkind = 'r' AND a.attcompression <> 'l'
		  AND (c.relname, a.attname) IN (('tasks', 'payload'), ('items', 'input'), ('finished_items', 'result'), ('parked_items', 'result'),
		    ('item_parts', 'payload'), ('checkpoints', 'snapshot'), ('blobs', 'body'), ('task_results', 'payload'), ('messages', 'content'),
		    ('message_chunks', 'body'), ('idempotency_keys', 'response'))`); left != "" {
		t.Errorf("not compressed with lz4: %s", left)
	}
	h.exec("INSERT INTO blobs (namespace, address, depth, chain, size, body, used_at) " +
		"VALUES ('n', 'a', 0, 1, 1, convert_to(repeat('a value ', 20000), 'UTF8'), 0)")
	if got := h.one("SELECT pg_column_compression(body) FROM blobs"); got != "(lz4)" {
		t.Errorf("a value is compressed with %s", got)
	}
}
