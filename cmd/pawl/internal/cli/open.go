package cli

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
	"github.com/pawl-work/pawl/tracing"
)

// open opens what the settings name: a server, or a database in this process.
func (a *App) open(ctx context.Context) (pawl.Service, func(), error) {
	if a.Config.Server != "" {
		o := client.Options{Header: tracing.Inject}
		if a.Config.CA != "" {
			pem, err := os.ReadFile(a.Config.CA)
			if err != nil {
				return nil, nil, Invalid("--ca: %v", err)
			}
			if o.RootCAs = x509.NewCertPool(); !o.RootCAs.AppendCertsFromPEM(pem) {
				return nil, nil, Invalid("--ca: %s contains no PEM certificate", a.Config.CA)
			}
		}
		return client.NewWith(a.Config.Server, a.Config.Key, o), func() {}, nil
	}
	o := a.EngineOptions()
	o.Existing = !a.creates
	if err := a.Config.Blobs.setStores(ctx, &o); err != nil {
		return nil, nil, err
	}
	eng, err := engine.OpenWith(ctx, a.Config.DB, o)
	if err != nil {
		return nil, nil, err
	}
	return eng, func() { _ = eng.Close() }, nil
}

// EngineOptions returns the options of the engine from the settings.
//
// Only `pawl serve` stores the settings of retention that it was given. The flags of another command count for it alone; a
// file and variables count for it as far as the database has no settings.
func (a *App) EngineOptions() engine.Options {
	set := a.Config.SweepFlags
	if a.Serves {
		set = a.Config.SweepGiven
	}
	return engine.Options{
		SweepSet:            append([]string{}, set...), // never nil, which would be all
		SweepOnce:           !a.Serves,
		Schema:              a.Config.Schema,
		ListenURL:           a.Config.ListenURL,
		Migrate:             a.Config.Migrate,
		KeepFileMode:        a.Config.KeepMode,
		Identity:            a.Config.Identity,
		Clock:               a.Clock,
		Sweep:               a.Config.Sweep.options(),
		TransparencyLog:     a.Config.Record.options(),
		Log:                 a.Log(),
		TracerProvider:      a.Traces,
		RegisteredTypesOnly: a.Config.Serve.TypesOnly,
		MaxTypes:            a.Config.Serve.MaxTypes,
		MaxBlobBytes:        a.Config.Serve.MaxBlob,
	}
}

// families are the prefixes of the variables that name parts of a database's address;
// each falls back to the next.
var families = []string{"DB_", "API_PG_DB_"}

// ProgramEnv returns the environment of programs that Pawl starts. It leaves out Pawl's own settings, which may contain
// keys and passwords, except the variables that are named.
func ProgramEnv(env, named []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		ours := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
		return !slices.Contains(named, name) && (ours("PAWL_") || slices.ContainsFunc(families, ours))
	})
}

// NameDatabase sets the database from DB_URL, or from DB_HOST and its like, if no
// setting names one. It returns the variables of the family that it does not use.
func (a *App) NameDatabase(cfg *Config) (unused []string) {
	var used []string
	get := func(names ...string) string {
		var value string
		for _, family := range families {
			for _, name := range names {
				used = append(used, family+name) // a twin that gives way is no surprise
				value = cmp.Or(value, a.Getenv(family+name))
			}
		}
		return value
	}
	if cfg.DB != "" {
		cfg.DBGiven = true
		return nil
	}
	cfg.DB = get("URL")
	if cfg.DB == "" {
		cfg.DB = fromParts(get)
	}
	cfg.DBGiven = cfg.DB != ""
	if cfg.DB == "" {
		cfg.DB = defaultDB
	} else if schema := get("SCHEMA"); cfg.Schema == "" {
		cfg.Schema = schema
	}
	for _, v := range a.Env {
		name, value, _ := strings.Cut(v, "=")
		ours := cfg.DBGiven && strings.HasPrefix(name, families[0]) || strings.HasPrefix(name, families[1])
		if ours && value != "" && !slices.Contains(used, name) {
			unused = append(unused, name)
		}
	}
	return unused
}

// fromParts returns the URL of the PostgreSQL database that a host and other parts name;
// "" without a host.
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

// ShownURL returns the database's URL for display: with its schema and without
// passwords.
func ShownURL(db, schema string) string {
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
		if name == "listen_url" {
			q.Set(name, ShownURL(q.Get(name), ""))
			changed = true
		}
	}
	if changed {
		u.RawQuery = q.Encode()
	}
	return u.Redacted()
}
