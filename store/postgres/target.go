package postgres

import (
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-work/pawl"
)

// The values of the URL's parameter pool_mode. Without it, Open finds out.
const (
	modeSession     = "session"
	modeTransaction = "transaction"
)

// target is what a URL and the options say about a database.
type target struct {
	config *pgxpool.Config
	schema string
	conns  int             // of this process, at most
	mode   string          // "" = to be found out
	listen *pgx.ConnConfig // where LISTEN connects to; nil = as the others
	own    *pgxpool.Pool   // the embedding program's connections; nil = there are none
}

// targetOf reads a URL. Pawl's own parameters are not sent to the server.
func targetOf(url string, o Options) (t target, err error) {
	if o.Pool != nil {
		if t.own, _ = o.Pool.(*pgxpool.Pool); t.own == nil {
			return t, pawl.Invalid("/pool", "a %T is no *pgxpool.Pool", o.Pool)
		}
	}
	if t.own != nil {
		t.config = t.own.Config()
	} else if t.config, err = pgxpool.ParseConfig(url); err != nil {
		// Without err, which repeats the URL with its password.
		return t, &pawl.Error{Code: pawl.CodeInvalid, Op: "open", Message: "the URL is not one of a PostgreSQL database"}
	}
	params := t.config.ConnConfig.RuntimeParams
	own := func(name, given, otherwise string) string {
		of := params[name]
		delete(params, name)
		for _, v := range []string{given, of} {
			if v != "" {
				return v
			}
		}
		return otherwise
	}
	if t.schema = own("schema", o.Schema, "pawl"); !identifier.MatchString(t.schema) {
		return t, pawl.Invalid("/schema", "%q is not a schema's name: lower-case letters, digits and underscores, at most 63", t.schema)
	}
	if own("prefix", "", "") != "" {
		return t, pawl.Invalid("/url", "a prefix is for SQLite: PostgreSQL has schemas, name one with ?schema=")
	}
	conns := ""
	if o.MaxConns != 0 {
		conns = strconv.Itoa(o.MaxConns)
	}
	t.conns, err = strconv.Atoi(own("max_conns", conns, strconv.Itoa(defaultConns)))
	if err != nil || t.conns < leastConns || t.conns > mostConns {
		return t, pawl.Invalid("/url", "max_conns is the number of connections of this process: %d to %d", leastConns, mostConns)
	}
	if t.own != nil {
		t.conns = min(t.conns, int(t.config.MaxConns))
	}
	if t.mode = own("pool_mode", "", ""); t.mode != "" && t.mode != modeSession && t.mode != modeTransaction {
		return t, pawl.Invalid("/url", "pool_mode is %s or %s; without it, Pawl finds out", modeSession, modeTransaction)
	}
	if listen := own("listen_url", o.ListenURL, ""); listen != "" {
		if t.listen, err = pgx.ParseConfig(listen); err != nil {
			return t, pawl.Invalid("/listen_url", "the URL for LISTEN is not one of a PostgreSQL database")
		}
		for _, name := range []string{"schema", "max_conns", "pool_mode", "listen_url"} {
			delete(t.listen.RuntimeParams, name)
		}
		named(t.listen)
	}
	named(t.config.ConnConfig)
	return t, nil
}

// named gives connections Pawl's name, if they have none.
func named(c *pgx.ConnConfig) {
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "pawl"
	}
}

// at says in an error of a server that does not answer where it was sought.
func (t target) at(err error) error {
	e, ok := err.(*pawl.Error)
	if !ok || e.Code != pawl.CodeUnavailable {
		return err
	}
	one := t.config.ConnConfig
	places := []string{net.JoinHostPort(one.Host, strconv.Itoa(int(one.Port)))}
	for _, f := range one.Fallbacks {
		places = append(places, net.JoinHostPort(f.Host, strconv.Itoa(int(f.Port))))
	}
	out := *e
	out.Message = strings.Join(slices.Compact(places), ", ") + ": " + e.Message
	return &out
}
