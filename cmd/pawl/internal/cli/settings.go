package cli

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"

	"github.com/pawl-work/pawl"
)

// Config has the values of all settings; Settings describes them.
type Config struct {
	DB         string `koanf:"db"`
	Schema     string `koanf:"schema"`
	ListenURL  string `koanf:"listen_url"`
	Migrate    string `koanf:"migrate"`
	KeepMode   bool   `koanf:"keep_file_mode"`
	Identity   string `koanf:"identity"`
	Server     string `koanf:"server"`
	Key        string `koanf:"key"`
	CA         string `koanf:"ca"`
	Namespace  string `koanf:"namespace"`
	Actor      string `koanf:"actor"`
	Provenance string `koanf:"provenance"`
	Output     string `koanf:"output"`
	Log        string `koanf:"log"`
	LogFormat  string `koanf:"log_format"`

	Serve  serveConfig  `koanf:"serve"`
	Blobs  blobsConfig  `koanf:"blobs"`
	Trace  traceConfig  `koanf:"trace"`
	Worker workerConfig `koanf:"worker"`
	Sweep  sweepConfig  `koanf:"sweep"`
	Relay  RelayConfig  `koanf:"relay"`
	Record recordConfig `koanf:"record"`
	Gate   gateConfig   `koanf:"gate"`

	Push map[string]PushConfig `koanf:"push"`

	DBGiven        bool // the database was named, not taken by default
	NamespaceGiven bool // by a flag, a variable or the file

	SweepGiven, SweepFlags []string // settings of sweeps that were given, without "sweep."; those of them that are flags
}

type serveConfig struct {
	Addr         string        `koanf:"addr"`
	Auth         string        `koanf:"auth"`
	Hosts        []string      `koanf:"hosts"`
	RequireKeys  []string      `koanf:"require_keys"`
	RatePerKey   int           `koanf:"rate_per_key"`
	RatePerAgent int           `koanf:"rate_per_agent"`
	TLSCert      string        `koanf:"tls_cert"`
	TLSKey       string        `koanf:"tls_key"`
	Notice       time.Duration `koanf:"notice"`
	SessionIdle  time.Duration `koanf:"session_idle"`
	SessionEnd   time.Duration `koanf:"session_length"`
	Types        string        `koanf:"types"`
	TypesOnly    bool          `koanf:"registered_types_only"`
	MCPTools     string        `koanf:"mcp_tools"`
	MaxTypes     int           `koanf:"max_types"`
	MaxBlob      int64         `koanf:"max_blob"`
	ServerLimits `koanf:",squash"`
	SignInConfig `koanf:",squash"`

	Inbound map[string]InboundConfig `koanf:"inbound"`
}

// ServerLimits has the fields of server.Limits, in their order.
type ServerLimits struct {
	BodiesInFlight int64         `koanf:"bodies_in_flight"`
	ReadTime       time.Duration `koanf:"read_time"`
	ReadsPerKey    int           `koanf:"reads_per_key"`
}

type workerConfig struct {
	Name         string        `koanf:"name"`
	Concurrency  int           `koanf:"concurrency"`
	LeaseSeconds int           `koanf:"lease_seconds"`
	Grace        time.Duration `koanf:"grace"`
	PassEnv      []string      `koanf:"pass_env"`
}

type sweepConfig struct {
	ScanIntervalSeconds      int           `koanf:"scan_interval_seconds"`
	CreateCheckpoints        bool          `koanf:"create_checkpoints"`
	CleanupOldCheckpoints    bool          `koanf:"cleanup_old_checkpoints"`
	CheckpointRetentionLimit int           `koanf:"checkpoint_retention_limit"`
	BuryAfter                time.Duration `koanf:"bury_after"`
	StaleAfter               time.Duration `koanf:"stale_after"`
	RetainTasks              time.Duration `koanf:"retain_tasks"`
	RetainFailed             time.Duration `koanf:"retain_failed"`
	RetainDead               time.Duration `koanf:"retain_dead_lettered"`
	RetainKeys               time.Duration `koanf:"retain_keys"`
	RetainSweeps             time.Duration `koanf:"retain_sweeps"`
	RetainChunks             time.Duration `koanf:"retain_chunks"`
	RetainSignals            time.Duration `koanf:"retain_signals"`
	RetainEffects            time.Duration `koanf:"retain_effects"`
	RetainCounters           time.Duration `koanf:"retain_counters"`
	ArchiveDir               string        `koanf:"archive_dir"`
}

// sweepsGiven notes which settings of sweeps were given.
func (c *Config) sweepsGiven(keys []string, flags *pflag.FlagSet) {
	for _, key := range keys {
		if name, found := strings.CutPrefix(key, "sweep."); found {
			c.SweepGiven = append(c.SweepGiven, name)
		}
	}
	if flags.Lookup("retain-tasks") == nil {
		c.Sweep.keepAsDefaults()
	}
	flags.Visit(func(f *pflag.Flag) {
		if key := f.Annotations[keyAnnotation]; len(key) == 1 && strings.HasPrefix(key[0], "sweep.") {
			c.SweepFlags = append(c.SweepFlags, strings.TrimPrefix(key[0], "sweep."))
		}
	})
}

// RelayConfig names the sinks of `pawl serve`, each as NAME=URL. Parameters of the sink
// follow a # at the end of the URL, in the form of a query. Error messages name sinks
// and never URLs, because URLs contain passwords.
type RelayConfig struct {
	Sinks   []string `koanf:"sinks"`
	Secrets []string `koanf:"secrets"` // NAME=whsec_…, several for one sink while they are changed
	Origin  string   `koanf:"origin"`
}

// recordConfig says who signs the transparency log, and where its checkpoints go.
type recordConfig struct {
	Key  string `koanf:"key"`
	Send string `koanf:"send"`

	Witnesses []string `koanf:"witnesses"` // KEY=URL
}

// keepAsDefaults raises the ages to the defaults: a command without flags for them may keep more than the defaults do, and
// not less. A server that was told nothing keeps by the defaults.
func (s *sweepConfig) keepAsDefaults() {
	d := sweepDefaults
	for age, least := range map[*time.Duration]time.Duration{&s.BuryAfter: d.BuryAfter, &s.StaleAfter: d.StaleAfter,
		&s.RetainTasks: d.RetainTasks, &s.RetainFailed: d.RetainFailed, &s.RetainDead: d.RetainDead, &s.RetainKeys: d.RetainKeys,
		&s.RetainSweeps: d.RetainSweeps, &s.RetainChunks: d.RetainChunks, &s.RetainSignals: d.RetainSignals,
		&s.RetainEffects: d.RetainEffects, &s.RetainCounters: d.RetainCounters} {
		if *age != 0 { // else never
			*age = max(*age, least)
		}
	}
	s.CheckpointRetentionLimit = max(s.CheckpointRetentionLimit, d.CheckpointRetentionLimit)
}

func (s sweepConfig) options() *pawl.SweepOptions {
	return &pawl.SweepOptions{
		ScanIntervalSeconds:      s.ScanIntervalSeconds,
		CreateCheckpoints:        s.CreateCheckpoints,
		CleanupOldCheckpoints:    s.CleanupOldCheckpoints,
		CheckpointRetentionLimit: s.CheckpointRetentionLimit,
		BuryAfter:                s.BuryAfter,
		StaleAfter:               s.StaleAfter,
		RetainTasks:              s.RetainTasks,
		RetainFailed:             s.RetainFailed,
		RetainDead:               s.RetainDead,
		RetainKeys:               s.RetainKeys,
		RetainSweeps:             s.RetainSweeps,
		RetainChunks:             s.RetainChunks,
		RetainSignals:            s.RetainSignals,
		RetainEffects:            s.RetainEffects,
		RetainCounters:           s.RetainCounters,
		ArchiveDir:               s.ArchiveDir,
	}
}

// Setting describes a setting. Its value is in the field of Config with the same key.
type Setting struct {
	Key     string // in pawl.yaml; PAWL_ and the key in capitals with _ for . is its variable
	Flag    string // of the commands that use it; "" = none
	Short   string // the flag's one-letter name
	Default any    // of the field's type; nil = its zero value
	Help    string // of the flag, and in docs/cli.md
	More    string // in docs/cli.md only
	Repeat  bool   // a list whose flag is repeated; its values may have commas
	Words   bool   // a list whose variable has words, not values with commas
}

// Settings is the table of settings, in the order of docs/cli.md.
var Settings = []Setting{
	{Key: "db", Flag: "db", Help: "database: sqlite:FILE or postgres://… (default " + defaultDB + ")",
		More: "`sqlite:FILE?prefix=pawl_` is a file of an application: [operations.md](operations.md#an-applications-file)"},
	{Key: "schema", Flag: "schema", Help: "PostgreSQL: the schema of Pawl's tables (default pawl)"},
	{Key: "listen_url", Flag: "listen-url",
		Help: "PostgreSQL behind a pooler of transactions: a URL past it, to listen for other processes' work",
		More: "[hosting.md](hosting.md)"},
	{Key: "server", Flag: "server", Help: "a pawl server's URL, or unix:/path of its socket, instead of a database"},
	{Key: "key", Flag: "key", Help: "API key for --server"},
	{Key: "ca", Flag: "ca", Help: "PEM file of the certificate authority that signed the certificate of --server",
		More: "It is then the only authority trusted"},
	{Key: "namespace", Flag: "namespace", Short: "n", Default: pawl.DefaultNamespace, Help: "namespace to work in"},
	{Key: "actor", Flag: "actor", Help: "the caller in events: NAME or TYPE/NAME"},
	{Key: "provenance", Flag: "provenance", Help: "the agent that makes the calls, as JSON: agent_id, agent_name, agent_version, model, …"},
	{Key: "output", Flag: "output", Short: "o", Default: "table", Help: "table or json"},
	{Key: "log", Flag: "log", Default: "info", Help: "debug, info, warn or error, on stderr"},
	{Key: "log_format", Flag: "log-format", Default: "text", Help: "text or json",
		More: "json is an object a line, with `time`, `level`, `msg` and then the fields; durations are in seconds"},
	{Key: "migrate", Default: "up", Help: "up: migrate the schema on opening; off: only verify it"},
	{Key: "identity", Default: "check", Help: "check: a database that was copied or moved does nothing until it is adopted; trust: it acts",
		More: "[moving](moving.md)"},
	{Key: "keep_file_mode", Help: "SQLite: keep the permissions of the file on opening; else only its owner keeps them"},

	{Key: "serve.addr", Flag: "addr", Default: "127.0.0.1:7033", Help: "address to listen on, host:port or unix:/path of a socket",
		More: "On any other address than loopback and a socket every call needs an API key: [access.md](access.md)"},
	{Key: "serve.auth", Flag: "auth", Help: "required: every call needs an API key, on loopback too"},
	{Key: "serve.hosts", Flag: "hosts", Help: "host names of this server, besides those of loopback"},
	{Key: "serve.read_time", Flag: "read-time", Help: "time limit of a read that is not a stream (default: 30s)"},
	{Key: "serve.reads_per_key", Flag: "reads-per-key", Help: "concurrent reads of one API key; further ones wait (default: 2)"},
	{Key: "serve.max_types", Flag: "max-types", Help: "types with queued work in a namespace, at most (default: 1000)"},
	{Key: "serve.max_blob", Flag: "max-blob", Help: "bytes of an uploaded blob, at most (default: 64 MiB)"},
	{Key: "serve.bodies_in_flight", Flag: "bodies-in-flight", Help: "bytes of request bodies of all calls in flight (default: 64 MiB)",
		More: "Further calls are refused with `limit`"},
	{Key: "serve.rate_per_key", Flag: "rate-per-key", Help: "calls per second of an API key without a rate of its own (default: no limit)"},
	{Key: "serve.inbound", Help: "sources of webhooks that become tasks and signals, each under its name",
		More: "In the variable as JSON. [Its members](flow.md#webhooks-in)"},
	{Key: "gate.upstreams", Help: "services that agents call through the gate, each under its name",
		More: "In the variable as JSON. [Its members](effects.md#the-gate)"},
	{Key: "gate.tools", Help: "rules for tools of MCP servers behind `pawl gate mcp`, each under its name",
		More: "In the variable as JSON. [Its members](effects.md#tools-of-mcp-servers)"},
	{Key: "push", Help: "URLs that `pawl serve` calls with the items of a type, each under its type",
		More: "In the variable as JSON. [Its members](push.md)"},
	{Key: "serve.rate_per_agent", Flag: "rate-per-agent", Help: "calls per second of one worker or actor (default: no limit)"},
	{Key: "serve.mcp_tools", Flag: "mcp-tools", Help: "tools at /mcp for agents without an API key: worker (default), approver or all",
		More: "[Sets of tools](mcp.md#sets-of-tools)"},
	{Key: "serve.require_keys", Flag: "require-keys", Help: "routes that require an Idempotency-Key, such as create_task; * for all",
		More: "An unknown name is refused"},
	{Key: "relay.sinks", Flag: "relay", Repeat: true, Words: true,
		Help: "send every event to NAME=URL: amqp, nats or https; see docs/relay.md"},
	{Key: "relay.secrets", Words: true, Help: "secrets of webhooks, NAME=whsec_…", More: "Several for one sink while they are rotated"},
	{Key: "relay.origin", Help: "the source of the events", More: "`/pawl` if it is empty; [relay.md](relay.md)"},
	{Key: "record.key", Help: "file of the key that signs the transparency log; made on first use (default: beside a SQLite database)",
		More: "Without one, as by default with PostgreSQL, this process signs nothing: [provenance.md](provenance.md#checkpoints)"},
	{Key: "record.send", Help: "file or https URL that gets each new checkpoint of the transparency log"},
	{Key: "record.witnesses", Flag: "log-witness", Repeat: true, Words: true,
		Help: "witness that cosigns the checkpoints of the transparency log, as KEY=URL", More: "[provenance.md](provenance.md#witnesses)"},
	{Key: "serve.session_idle", Default: time.Hour, Help: "a login to the dashboard ends after this time without use"},
	{Key: "serve.session_length", Default: 12 * time.Hour, Help: "a login to the dashboard ends after this time at the latest"},
	{Key: "serve.types", Flag: "types", Help: "folder of YAML and JSON files whose types are registered at the start"},
	{Key: "serve.registered_types_only", Flag: "registered-types-only", Help: "refuse tasks and items of types that are not registered",
		More: "[types.md](types.md)"},
	{Key: "serve.tls_cert", Flag: "tls-cert", Help: "PEM file of a certificate: serve with TLS", More: "It is read again when it changes"},
	{Key: "serve.tls_key", Flag: "tls-key", Help: "PEM file of the certificate's key"},
	{Key: "serve.notice", Flag: "notice", Help: "how long a stopping server still accepts calls while /readyz answers 503"},

	{Key: "serve.groups", Words: true, Help: "roles of the members of groups: GROUP=ROLE,ROLE@NAMESPACE,NAMESPACE",
		More: "Of OpenID Connect, tokens and proxies alike. Without a namespace, `default`; `*` is all: [access.md](access.md#sign-in)"},
	{Key: "serve.groups_claim", Help: "claim of tokens that has the groups (default: groups)", More: "Or a path: `realm_access.roles`"},
	{Key: "serve.name_claim", Help: "claim of tokens that names the actor (default: preferred_username, else sub)",
		More: "`email` counts only with `email_verified`"},
	{Key: "serve.oidc.issuer", Help: "https address of the OpenID Connect provider where users of the dashboard log in"},
	{Key: "serve.oidc.client_id", Help: "client id at the provider"},
	{Key: "serve.oidc.client_secret", Help: "client secret at the provider (default: a public client)"},
	{Key: "serve.oidc.client_secret_file", Help: "file of the client secret, instead of serve.oidc.client_secret"},
	{Key: "serve.oidc.redirect_url", Help: "address of this server as browsers see it, with the path /ui/oidc/callback"},
	{Key: "serve.oidc.after_logout_url", Help: "where the provider sends the browser after a logout (default: nowhere)"},
	{Key: "serve.oidc.scopes", Words: true, Help: "scopes to ask for (default: openid, profile and email)"},
	{Key: "serve.jwt.issuers", Words: true, Help: "issuers whose JSON web tokens (JWT) are accepted as API keys are"},
	{Key: "serve.jwt.audiences", Words: true, Help: "values of which a token's aud must have one"},
	{Key: "serve.jwt.jwks_url", Help: "address of the keys of the only issuer (default: the one it publishes)"},
	{Key: "serve.jwt.leeway", Help: "how far the clocks of issuers may differ (default: 30s; at most 5m)"},
	{Key: "serve.proxy.from", Words: true, Help: "addresses and networks of trusted proxies, such as 10.0.0.0/8, or unix",
		More: "X-Forwarded-For, -Host and -Proto are then accepted from there only"},
	{Key: "serve.proxy.user_header", Help: "header in which a trusted proxy names the user"},
	{Key: "serve.proxy.groups_header", Help: "header in which it names the user's groups, with commas between them"},

	{Key: "blobs.store", Flag: "blob-store", Default: blobsInDatabase, Help: "where new blobs go: database, directory or s3",
		More: "Old ones are read where they are: [blobs.md](blobs.md#stores)"},
	{Key: "blobs.dir", Flag: "blob-dir", Help: "directory of blobs, which several servers may share",
		More: "It is read also if new ones go elsewhere"},
	{Key: "blobs.s3", Flag: "blob-s3", Help: "bucket of blobs, https://ENDPOINT/BUCKET[/PREFIX][#region=NAME]",
		More: "It is read also if new ones go elsewhere. Credentials: [blobs.md](blobs.md#stores)"},
	{Key: "blobs.lost", Words: true, Help: "names of stores of blobs that are gone for ever",
		More: "Without their store or this, `pawl serve` refuses a database that has blobs there"},
	{Key: "blobs.keep", Help: "remove nothing from blobs.dir and blobs.s3: they belong to another database",
		More: "Set it for every copy of a database: [blobs.md](blobs.md#backup)"},

	{Key: "trace.endpoint", Flag: "trace", Help: "send traces to the collector at this http address (OTLP); off = nowhere",
		More: "Without it, the variables of OpenTelemetry say where: [traces.md](traces.md)"},

	{Key: "worker.name", Flag: "name", Help: "name in the registry of workers"},
	{Key: "worker.concurrency", Flag: "concurrency", Default: 1, Help: "programs that run at the same time"},
	{Key: "worker.lease_seconds", Flag: "lease",
		Help: "seconds a lease lasts without a heartbeat (default: that of each item's type, or 300)"},
	{Key: "worker.grace", Flag: "grace", Default: pawl.DefaultStopGrace, Help: "how long programs may keep running after SIGTERM"},
	{Key: "worker.pass_env", Flag: "pass-env", Words: true,
		Help: "PAWL_… and DB_… variables to pass to programs; all others of these are removed"},

	{Key: "sweep.scan_interval_seconds", Default: sweepDefaults.ScanIntervalSeconds,
		Help: "longest time between passes; the next expiry starts one earlier"},
	{Key: "sweep.create_checkpoints", Flag: "create-checkpoints", Default: sweepDefaults.CreateCheckpoints,
		Help: "save an error_boundary checkpoint for each expired lease"},
	{Key: "sweep.cleanup_old_checkpoints", Flag: "cleanup-old-checkpoints", Default: sweepDefaults.CleanupOldCheckpoints,
		Help: "remove checkpoints beyond the limit"},
	{Key: "sweep.checkpoint_retention_limit", Flag: "checkpoint-retention-limit", Default: sweepDefaults.CheckpointRetentionLimit,
		Help: "checkpoints kept per task, besides those that a resume needs"},
	{Key: "sweep.bury_after", Flag: "bury-after", Default: sweepDefaults.BuryAfter,
		Help: "failed items become dead letters after this time; 0 = never"},
	{Key: "sweep.stale_after", Flag: "stale-after", Default: sweepDefaults.StaleAfter,
		Help: "tasks without a change get one event after this time; 0 = never"},
	{Key: "sweep.retain_tasks", Flag: "retain-tasks", Default: sweepDefaults.RetainTasks,
		Help: "how long ended tasks are kept before they are archived and removed; 0 = for ever"},
	{Key: "sweep.retain_failed", Flag: "retain-failed", Default: sweepDefaults.RetainFailed,
		Help: "how long failed tasks are kept after their last change; 0 = for ever"},
	{Key: "sweep.retain_dead_lettered", Flag: "retain-dead-lettered", Default: sweepDefaults.RetainDead,
		Help: "how long dead-lettered tasks are kept after their last change; 0 = for ever"},
	{Key: "sweep.retain_keys", Flag: "retain-keys", Default: sweepDefaults.RetainKeys,
		Help: "how long completed idempotency keys without expiry are kept; 0 = for ever"},
	{Key: "sweep.retain_sweeps", Flag: "retain-sweeps", Default: sweepDefaults.RetainSweeps,
		Help: "how long statistics of sweeps are kept; 0 = for ever"},
	{Key: "sweep.retain_chunks", Flag: "retain-chunks", Default: sweepDefaults.RetainChunks,
		Help: "how long chunks of ended messages are kept; 0 = for ever"},
	{Key: "sweep.retain_effects", Flag: "retain-effects", Default: sweepDefaults.RetainEffects,
		Help: "keep the keys of effects whose tasks are gone, after they were made"},
	{Key: "sweep.retain_signals", Flag: "retain-signals", Default: sweepDefaults.RetainSignals,
		Help: "how long sent signals that no item waits for are kept; 0 = for ever"},
	{Key: "sweep.retain_counters", Flag: "retain-counters", Default: sweepDefaults.RetainCounters,
		Help: "how long the counters of queues are kept; 0 = for ever"},
	{Key: "sweep.archive_dir", Flag: "archive-dir", Help: "folder of archives (default: beside a SQLite database, in a PostgreSQL one)"},
}

var sweepDefaults = pawl.DefaultSweepOptions()

// Defaults returns the settings before any file, variable or flag.
func Defaults() Config {
	k := koanf.New(".")
	for _, s := range Settings {
		if s.Default != nil {
			_ = k.Set(s.Key, s.Default) // a key without a parent that is a value: TestSettings
		}
	}
	var cfg Config
	_ = k.Unmarshal("", &cfg) // the defaults are of the fields' types: TestSettings
	return cfg
}

// GlobalFlags adds the flags that every command has.
func GlobalFlags(f *pflag.FlagSet) {
	for _, s := range Settings {
		if !strings.Contains(s.Key, ".") {
			s.addFlag(f)
		}
	}
	f.Bool("json", false, "short for -o json")
	f.String("config", "", "settings file (default "+defaultFile+" if it exists)")
}

// SettingFlags adds the flags of the settings whose keys begin with a prefix.
func SettingFlags(f *pflag.FlagSet, prefixes ...string) {
	for _, s := range Settings {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(s.Key, p) }) {
			s.addFlag(f)
		}
	}
}

// NotOfServer refuses flags of the settings whose keys begin with a prefix if a server
// is named, because the server uses its own.
func (a *App) NotOfServer(f *pflag.FlagSet, prefix string) error {
	for _, s := range Settings {
		if a.Config.Server != "" && s.Flag != "" && strings.HasPrefix(s.Key, prefix) && f.Changed(s.Flag) {
			return Invalid("--%s is a setting of the server: give it to `pawl serve`, or name a database with --db", s.Flag)
		}
	}
	return nil
}

// addFlag adds the setting's flag, which has the type of its field.
func (s Setting) addFlag(f *pflag.FlagSet) {
	if s.Flag == "" {
		return
	}
	zero := reflect.Zero(typeOfKey(s.Key)).Interface()
	if s.Default != nil {
		zero = s.Default
	}
	switch v := zero.(type) {
	case string:
		f.StringP(s.Flag, s.Short, v, s.Help)
	case bool:
		f.BoolP(s.Flag, s.Short, v, s.Help)
	case int:
		f.IntP(s.Flag, s.Short, v, s.Help)
	case int64:
		f.Int64P(s.Flag, s.Short, v, s.Help)
	case time.Duration:
		value := durationValue(v)
		f.VarP(&value, s.Flag, s.Short, s.Help)
	case []string:
		if s.Repeat {
			f.StringArrayP(s.Flag, s.Short, v, s.Help)
		} else {
			f.StringSliceP(s.Flag, s.Short, v, s.Help)
		}
	default:
		panic(fmt.Sprintf("pawl: a flag of a %T", v)) // TestSettings adds them all
	}
	_ = f.SetAnnotation(s.Flag, keyAnnotation, []string{s.Key}) // the flag was added above
}

// words reports whether the variable of a key is a list of words.
func words(key string) bool {
	return slices.ContainsFunc(Settings, func(s Setting) bool { return s.Key == key && s.Words })
}

// typeOfKey is the type of a key's field in Config.
func typeOfKey(key string) reflect.Type {
	t := reflect.TypeFor[Config]()
	for name := range strings.SplitSeq(key, ".") {
		for _, f := range reflect.VisibleFields(t) {
			if f.Tag.Get("koanf") == name {
				t = f.Type
				break
			}
		}
	}
	return t
}
