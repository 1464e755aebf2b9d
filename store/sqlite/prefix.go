package sqlite

import (
	"context"
	"io/fs"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/pawl-work/pawl/store"
)

var (
	parameters = regexp.MustCompile(`\?\w+=.*$`)
	prefixes   = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,29}$`)
	created    = regexp.MustCompile(`CREATE (?:UNIQUE )?(TABLE|VIEW|INDEX|TRIGGER) pawl\.(\w+)`)
)

// SplitURL returns the path and the parameter prefix of a URL, such as sqlite:app.db?prefix=pawl_. local
// is false for a URL of another kind.
func SplitURL(text string) (path, prefix string, local bool, err error) {
	path, local = strings.CutPrefix(text, "sqlite:")
	if !local {
		return "", "", false, nil
	}
	path = strings.TrimPrefix(path, "//")
	found := parameters.FindString(path)
	if found == "" {
		return path, "", true, nil
	}
	path = strings.TrimSuffix(path, found)
	q, err := url.ParseQuery(found[1:])
	if prefix = q.Get("prefix"); err != nil || len(q) != 1 || len(q["prefix"]) != 1 {
		return path, "", true, invalid("the only parameter of a sqlite: URL is prefix, as in sqlite:%s?prefix=pawl_", path)
	}
	if prefix == "" {
		return path, "", true, invalid("the prefix is empty: leave the parameter out if the file is Pawl's alone")
	}
	return path, prefix, true, checkPrefix(prefix)
}

func checkPrefix(prefix string) error {
	if prefix == "" || prefixes.MatchString(prefix) && !strings.HasPrefix(prefix, "sqlite_") {
		return nil
	}
	return invalid("the prefix %q is not one: it has up to 30 lower-case letters, digits and _, begins with a letter or _, "+
		"and not with sqlite_", prefix)
}

func (d *db) prepareFile(ctx context.Context) error {
	if d.prefix == "" {
		return prepareFile(ctx, d.path)
	}
	return retryLocked(ctx, func() error {
		c, err := openConn(d.path, true, []string{"busy_timeout(50)"})
		if err != nil {
			return classify(err)
		}
		defer c.close()
		c.watch(ctx)
		if err := d.checkShared(c); err != nil {
			return err
		}
		if _, err := c.exec("BEGIN"); err != nil {
			return classify(err)
		}
		return d.checkNames(c)
	})
}

// checkShared refuses a file that cannot hold Pawl's tables beside the application's. Only a file
// without any page is changed: it gets a write-ahead log.
func (d *db) checkShared(c *conn) error {
	var id, pages int64
	var encoding, mode string
	err := c.row([]any{&id, &pages, &encoding}, "SELECT (SELECT application_id FROM pragma_application_id), "+
		"(SELECT page_count FROM pragma_page_count), (SELECT encoding FROM pragma_encoding)")
	set := "PRAGMA journal_mode"
	if pages == 0 {
		set += " = WAL"
	}
	if err == nil {
		err = c.row([]any{&mode}, set)
	}
	switch {
	case err != nil && codeOf(err) == codeNotADB:
		return invalid("%s is not a SQLite database", d.path)
	case err != nil:
		return classify(err)
	case id == applicationID:
		return invalid("%s is Pawl's own file, whose tables have no prefix: leave ?prefix=%s out", d.path, d.prefix)
	case encoding != "UTF-8":
		return invalid("%s stores text as %s, and Pawl needs UTF-8: give Pawl a file of its own", d.path, encoding)
	case mode != "wal":
		return invalid("the journal mode of %s is %s. Pawl needs wal, and leaves the setting to the application: set it once, "+
			"with PRAGMA journal_mode = WAL, or give Pawl a file of its own", d.path, mode)
	}
	return nil
}

// checkNames refuses a prefix whose names the application has, and a second prefix in one file. It reads
// in the transaction that c has begun.
func (d *db) checkNames(c *conn) error {
	there := map[string]string{} // the texts of all objects, by their names
	err := store.EachRow(context.Background(), &tx{conn: c}, func(rows store.Rows) error {
		var name, text string
		err := rows.Scan(&name, &text)
		there[strings.ToLower(name)] = text
		return err
	}, "SELECT name, COALESCE(sql, '') FROM sqlite_schema")
	if err != nil {
		return classify(err)
	}
	migrated := d.prefix + "schema_migrations"
	if other := prefixIn(there); other != "" && other != d.prefix {
		return invalid("%s has Pawl's tables already, with the prefix %s: open sqlite:%s?prefix=%s", d.path, other, d.path, other)
	} else if text, taken := there[migrated]; taken && other == "" {
		return d.taken(migrated, text)
	}
	newest := int64(0)
	if _, known := there[migrated]; known {
		if err := c.row([]any{&newest}, "SELECT COALESCE(MAX(id), 0) FROM "+migrated); err != nil {
			return classify(err)
		}
	}
	for _, name := range names(newest) {
		if text, taken := there[d.prefix+name]; taken {
			return d.taken(d.prefix+name, text)
		}
	}
	return nil
}

func (d *db) taken(name, text string) error {
	return invalid("%s has an object of the application with the name %s (%.60s): choose another prefix", d.path, name, text)
}

// prefixIn returns the prefix of Pawl's table of migrations among the objects of a file; "" = there is none.
func prefixIn(there map[string]string) string {
	for name, text := range there {
		prefix, is := strings.CutSuffix(name, "schema_migrations")
		if is && strings.Contains(text, "executed_at BIGINT NOT NULL") && strings.Contains(text, "oldest ") {
			return prefix
		}
	}
	return ""
}

// names lists what the migrations after one create, and with the first one also what moves create.
func names(after int64) (out []string) {
	files, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		panic(err) // embedded at build time
	}
	before := map[string]bool{}
	for _, file := range files {
		text, err := fs.ReadFile(migrations, file)
		id, err2 := strconv.ParseInt(strings.TrimPrefix(file, "migrations/")[:4], 10, 64)
		if err != nil || err2 != nil {
			panic(file) // embedded at build time
		}
		for _, m := range created.FindAllStringSubmatch(string(text), -1) {
			kind, name := m[1], m[2]
			switch {
			case id <= after:
				before[name] = true
			case before[name]: // made anew
			case after == 0 && kind == "TABLE":
				out = append(out, "moving_"+name+"_insert", "moving_"+name+"_update", "moving_"+name+"_delete", "moved_"+name, "moved_"+name+"_key")
				fallthrough
			default:
				out = append(out, name)
			}
		}
	}
	return out
}
