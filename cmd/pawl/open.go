package main

import (
	"cmp"
	"context"
	"crypto/x509"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/client"
	"github.com/pawl-work/pawl/engine"
)

// open opens what the settings name: a server, or a database in this process.
func (a *app) open(ctx context.Context) (pawl.Service, func(), error) {
	if a.cfg.Server != "" {
		var o client.Options
		if a.cfg.CA != "" {
			pem, err := os.ReadFile(a.cfg.CA)
			if err != nil {
				return nil, nil, invalid("--ca: %v", err)
			}
			if o.RootCAs = x509.NewCertPool(); !o.RootCAs.AppendCertsFromPEM(pem) {
				return nil, nil, invalid("--ca: %s holds no PEM certificate", a.cfg.CA)
			}
		}
		return client.NewWith(a.cfg.Server, a.cfg.Key, o), func() {}, nil
	}
	o := a.engineOptions()
	o.Existing = !a.creates
	eng, err := engine.OpenWith(ctx, a.cfg.DB, o)
	if err != nil {
		return nil, nil, err
	}
	return eng, func() { _ = eng.Close() }, nil
}

func (a *app) engineOptions() engine.Options {
	return engine.Options{Schema: a.cfg.Schema, Migrate: a.cfg.Migrate, Sweep: a.cfg.Sweep.options(), Log: a.log(),
		RegisteredTypesOnly: a.cfg.Serve.TypesOnly, MaxTypes: a.cfg.Serve.MaxTypes}
}

// families are the prefixes of the variables that name a database by its parts; each
// falls back to the next.
var families = []string{"DB_", "API_PG_DB_"}

// nameDatabase puts in what DB_URL, or DB_HOST and its like, say, when nothing else
// names a database. It answers with the variables of the family that it does not use.
func (a *app) nameDatabase(cfg *config) (unused []string) {
	var used []string
	get := func(names ...string) string {
		var value string
		for _, family := range families {
			for _, name := range names {
				used = append(used, family+name) // a twin that gives way is no surprise
				value = cmp.Or(value, a.getenv(family+name))
			}
		}
		return value
	}
	if cfg.DB != "" {
		cfg.named = true
		return nil
	}
	cfg.DB = get("URL")
	if cfg.DB == "" {
		cfg.DB = fromParts(get)
	}
	cfg.named = cfg.DB != ""
	if cfg.DB == "" {
		cfg.DB = defaultDB
	} else if schema := get("SCHEMA"); cfg.Schema == "" {
		cfg.Schema = schema
	}
	for _, v := range a.env {
		name, value, _ := strings.Cut(v, "=")
		ours := cfg.named && strings.HasPrefix(name, families[0]) || strings.HasPrefix(name, families[1])
		if ours && value != "" && !slices.Contains(used, name) {
			unused = append(unused, name)
		}
	}
	return unused
}

// fromParts is the URL of a PostgreSQL database that a host and other parts name; ""
// without a host.
func fromParts(get func(names ...string) string) string {
	host := get("HOST")
	if host == "" {
		return ""
	}
	u := url.URL{Scheme: "postgres", Host: host, Path: "/" + get("NAME", "DATABASE")}
	port := get("PORT")
	switch {
	case strings.HasPrefix(host, "/"): // the folder of a socket
		q := url.Values{"host": {host}}
		if port != "" {
			q.Set("port", port)
		}
		u.Host, u.RawQuery = "", q.Encode()
	case port != "":
		u.Host = net.JoinHostPort(host, port)
	case strings.Contains(host, ":"):
		u.Host = "[" + host + "]"
	}
	if user, password := get("USER", "USERNAME"), get("PASSWORD"); password != "" {
		u.User = url.UserPassword(user, password)
	} else if user != "" {
		u.User = url.User(user)
	}
	return u.String()
}

// named is the database's URL as it may be shown: with the schema it was told
// to use, without its passwords.
func named(db, schema string) string {
	u, err := url.Parse(db)
	if strings.HasPrefix(db, "sqlite:") {
		return db
	}
	if err != nil {
		return "a URL that cannot be read"
	}
	q, changed := u.Query(), schema != ""
	if changed {
		q.Set("schema", schema)
	}
	for name := range q {
		if strings.Contains(strings.ToLower(name), "password") {
			q.Set(name, "xxxxx")
			changed = true
		}
	}
	if changed {
		u.RawQuery = q.Encode()
	}
	return u.Redacted()
}
