package postgres

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// SQL returns exactly what migrating runs on a PostgreSQL database for the migrations
// after the given number. It needs no database. A schema of "" is pawl.
func SQL(schema string, from int64) (string, error) {
	if schema == "" {
		schema = "pawl"
	}
	if !identifier.MatchString(schema) {
		return "", pawl.Invalid("/schema", "%q is not a schema's name: lower-case letters, digits and underscores, at most 63", schema)
	}
	files, table := scripts(schema)
	return store.NewMigrator(nil, files, table).SQL(from)
}

var migrationHead = regexp.MustCompile(`(?m)^-- (\d+): .*\n`)

// Once returns the text of SQL so that it may run again: each migration runs only if the table of
// migrations does not have it.
func Once(text, schema string) string {
	heads := migrationHead.FindAllStringSubmatchIndex(text, -1)
	if len(heads) == 0 {
		return text
	}
	_, table := scripts(schema)
	out := text[:heads[0][0]]
	for i, h := range heads {
		end := len(text)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		id := text[h[2]:h[3]]
		body := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(text[h[1]:end]), "BEGIN;\n"), "\nCOMMIT;")
		out += text[h[0]:h[1]] + fmt.Sprintf(`BEGIN;
DO $once_%[1]s$
BEGIN
IF EXISTS (SELECT 1 FROM %[2]s WHERE id = %[1]s) THEN
  RAISE NOTICE 'migration %[1]s has run before';
ELSE
  EXECUTE $migration_%[1]s$
%[3]s
$migration_%[1]s$;
END IF;
END $once_%[1]s$;
COMMIT;

`, id, table, body)
	}
	return strings.TrimSuffix(out, "\n")
}
