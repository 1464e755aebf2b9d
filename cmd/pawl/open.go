package main

import (
	"context"
	"crypto/x509"
	"net"
	"net/url"
	"os"
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

// nameDatabase puts in what DB_HOST and its like say, each falling back to its
// API_PG_DB_* twin, when nothing else names a database and a host is named.
func (a *app) nameDatabase(cfg *config) {
	get := func(name string) string {
		if v := a.getenv("DB_" + name); v != "" {
			return v
		}
		return a.getenv("API_PG_DB_" + name)
	}
	host := get("HOST")
	cfg.named = cfg.DB != "" || host != ""
	switch {
	case cfg.DB != "":
		return
	case host == "":
		cfg.DB = defaultDB
		return
	}
	u := url.URL{Scheme: "postgres", Host: host, Path: "/" + get("NAME")}
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
	if user, password := get("USER"), get("PASSWORD"); password != "" {
		u.User = url.UserPassword(user, password)
	} else if user != "" {
		u.User = url.User(user)
	}
	cfg.DB = u.String()
	if cfg.Schema == "" {
		cfg.Schema = get("SCHEMA")
	}
}

// named is the database's URL as it may be shown: with the schema it was told
// to use, without its password.
func named(db, schema string) string {
	u, err := url.Parse(db)
	if err != nil || u.Scheme == "sqlite" {
		return db
	}
	if q := u.Query(); schema != "" {
		q.Set("schema", schema)
		u.RawQuery = q.Encode()
	}
	return u.Redacted()
}
