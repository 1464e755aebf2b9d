package postgres

import (
	"context"
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

//go:embed place.sql
var placeFile embed.FS

var placeSQL = store.Texts(placeFile, "place.sql")

// placeOf returns how to read where the database is that a configuration names.
func placeOf(conn *pgx.ConnConfig) func(context.Context, store.Tx, bool) (store.Place, error) {
	named := address(conn)
	return func(ctx context.Context, tx store.Tx, _ bool) (store.Place, error) {
		p := store.Place{Address: named, Named: named}
		may := false
		if _, err := store.Row(ctx, tx, []any{&may}, placeSQL["may read system"]); err != nil {
			return p, err
		}
		if may {
			if _, err := store.Row(ctx, tx, []any{&p.System}, placeSQL["system"]); err != nil {
				return p, err
			}
		}
		_, err := store.Row(ctx, tx, []any{&p.Database, &p.Schema}, placeSQL["place"])
		return p, err
	}
}

// address returns the hosts of a configuration, in one order, and its database.
func address(conn *pgx.ConnConfig) string {
	host := func(host string, port uint16) string { return fmt.Sprintf("%s:%d", strings.ToLower(host), port) }
	hosts := []string{host(conn.Host, conn.Port)}
	for _, f := range conn.Fallbacks {
		hosts = append(hosts, host(f.Host, f.Port))
	}
	slices.Sort(hosts)
	database := conn.Database
	if database == "" {
		database = conn.User
	}
	return "postgres://" + strings.Join(slices.Compact(hosts), ",") + "/" + database
}

// Named returns what store.Place.Named is of the database at url.
func Named(url string) (string, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil { // without err, which repeats the URL with its password
		return "", &pawl.Error{Code: pawl.CodeInvalid, Op: "adopt", Message: "the URL is not one of a PostgreSQL database"}
	}
	return address(cfg), nil
}
