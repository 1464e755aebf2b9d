package cli

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/providers/posflag"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/nearest"
	"github.com/pawl-work/pawl/mcp"
)

// Config is every setting there is. A setting's key is its path of names here
// (serve.addr), its variable that in capitals after PAWL_ (PAWL_SERVE_ADDR), its
// flag the one bound to it.
type Config struct {
	DB         string `koanf:"db"`
	Schema     string `koanf:"schema"`
	Migrate    string `koanf:"migrate"`
	Server     string `koanf:"server"`
	Key        string `koanf:"key"`
	CA         string `koanf:"ca"`
	Namespace  string `koanf:"namespace"`
	Actor      string `koanf:"actor"`
	Provenance string `koanf:"provenance"`
	Output     string `koanf:"output"`
	Log        string `koanf:"log"`

	Serve  serveConfig  `koanf:"serve"`
	Worker workerConfig `koanf:"worker"`
	Sweep  sweepConfig  `koanf:"sweep"`
	Relay  RelayConfig  `koanf:"relay"`

	DBGiven bool // the database was named by somebody, not by default
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

	BodiesInFlight int64         `koanf:"bodies_in_flight"`
	ReadTime       time.Duration `koanf:"read_time"`
	ReadsPerKey    int           `koanf:"reads_per_key"`
	MaxTypes       int           `koanf:"max_types"`
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
	ArchiveDir               string        `koanf:"archive_dir"`
}

const (
	defaultDB     = "sqlite:pawl.db"
	defaultFile   = "pawl.yaml"
	keyAnnotation = "pawl_key" // on a flag: the key it sets
)

// foreign are variables that begin with PAWL_ and are not settings: the
// config file's name, what `worker --exec` tells its programs, what tests read,
// and what Kubernetes sets for a service that is called pawl.
var foreign = []string{"PAWL_CONFIG", "PAWL_ITEM_ID", "PAWL_TASK_ID", "PAWL_TYPE", "PAWL_ATTEMPT", "PAWL_WORKER_ID",
	"PAWL_PAYLOAD_SCHEMA", "PAWL_INPUT_SCHEMA", "PAWL_RESULT_SCHEMA", "PAWL_PARTS", "PAWL_ERROR", "PAWL_REASONS",
	"PAWL_TEST_*", "PAWL_SERVICE_*", "PAWL_PORT", "PAWL_PORT_*"}

// Defaults returns the settings before any file, variable or flag.
func Defaults() Config {
	s := pawl.DefaultSweepOptions()
	return Config{
		Migrate:   "up",
		Namespace: pawl.DefaultNamespace,
		Output:    "table",
		Log:       "info",
		Serve:     serveConfig{Addr: "127.0.0.1:7033", SessionIdle: time.Hour, SessionEnd: 12 * time.Hour},
		Worker:    workerConfig{Concurrency: 1, LeaseSeconds: pawl.DefaultLeaseSeconds, Grace: pawl.DefaultStopGrace},
		Sweep: sweepConfig{
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
			ArchiveDir:               s.ArchiveDir,
		},
	}
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
		ArchiveDir:               s.ArchiveDir,
	}
}

// GlobalFlags adds the flags that every command has.
func GlobalFlags(f *pflag.FlagSet) {
	f.String("db", "", "database: sqlite:FILE or postgres://… (default "+defaultDB+")")
	f.String("schema", "", "PostgreSQL: the schema to live in (default pawl)")
	f.String("server", "", "a pawl server's URL, or unix:/path of its socket, instead of a database")
	f.String("key", "", "API key for --server")
	f.String("ca", "", "PEM file of the certificate authority that signed the certificate of --server")
	f.StringP("namespace", "n", "", "namespace to work in (default default)")
	f.String("actor", "", "who acts, for the record")
	f.String("provenance", "", "what the agent at work says of itself, as JSON: agent_id, agent_name, agent_version, model, …")
	f.StringP("output", "o", "", "table or json (default table)")
	f.String("log", "", "debug, info, warn or error, on stderr (default info)")
	for _, name := range []string{"db", "schema", "server", "key", "ca", "namespace", "actor", "provenance", "output", "log"} {
		Bind(f, name, name)
	}
	f.Bool("json", false, "short for -o json")
	f.String("config", "", "settings file (default "+defaultFile+" where it exists)")
}

// Bind lets a flag set a key.
func Bind(f *pflag.FlagSet, flag, key string) {
	if err := f.SetAnnotation(flag, keyAnnotation, []string{key}); err != nil {
		panic("pawl: " + err.Error()) // it is bound before it is made
	}
}

// Configure reads the settings: flags before variables before the file before
// defaults. An unknown key is an error that names its source.
func (a *App) Configure(cmd *cobra.Command) error {
	k := koanf.New(".")
	known := KeysOf(reflect.TypeOf(Config{}), "")
	if err := a.loadFile(k, cmd.Flags(), known); err != nil {
		return err
	}
	if err := a.loadEnv(k, known); err != nil {
		return err
	}
	if err := loadFlags(k, cmd.Flags()); err != nil {
		return err
	}
	cfg := Defaults()
	if err := k.Unmarshal("", &cfg); err != nil {
		return Invalid("settings: %v", err)
	}
	db, server := given(cmd.Flags(), "db"), given(cmd.Flags(), "server")
	if db && !server {
		cfg.Server = "" // what a variable or the file names gives way to a flag
	}
	unused := a.NameDatabase(&cfg)
	a.Config = cfg
	if db && server {
		return Usage(cmd, errors.New("--db and --server name two Pawls; give one of them"))
	}
	if err := cfg.check(); err != nil {
		return err
	}
	if cfg.Server == "" && len(unused) > 0 {
		a.Log().Warn("variables that look like a database's are not read", "variables", unused)
	}
	return nil
}

// given says that a flag was set to something.
func given(flags *pflag.FlagSet, name string) bool {
	value, _ := flags.GetString(name)
	return flags.Changed(name) && value != ""
}

func loadFlags(k *koanf.Koanf, flags *pflag.FlagSet) error {
	err := k.Load(posflag.ProviderWithFlag(flags, ".", nil, func(f *pflag.Flag) (string, any) {
		if key := f.Annotations[keyAnnotation]; len(key) == 1 && f.Changed {
			return key[0], posflag.FlagVal(flags, f)
		}
		return "", nil
	}), nil)
	if json, _ := flags.GetBool("json"); json && err == nil {
		err = k.Set("output", "json")
	}
	return err
}

// output is how a command line is refused that was not understood: as it asks
// for, or else the environment or the file, as far as they can be read.
func (a *App) output() string {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	GlobalFlags(flags)
	_ = flags.Parse(a.Args) // what was wrong is being told
	k, known := koanf.New("."), KeysOf(reflect.TypeOf(Config{}), "")
	_ = errors.Join(a.loadFile(k, flags, known), a.loadEnv(k, known), loadFlags(k, flags))
	return k.String("output")
}

func (a *App) loadFile(k *koanf.Koanf, flags *pflag.FlagSet, known []string) error {
	name, _ := flags.GetString("config")
	if name == "" {
		name = a.Getenv("PAWL_CONFIG")
	}
	asked := name != ""
	if !asked {
		name = defaultFile
	}
	in := koanf.New(".")
	err := in.Load(file.Provider(name), yaml.Parser())
	if errors.Is(err, fs.ErrNotExist) && !asked {
		return nil
	}
	if err != nil {
		return Invalid("settings file %s: %v", name, err)
	}
	for _, key := range in.Keys() {
		if !slices.Contains(known, key) && !isSection(key, known) {
			return unknownKey(name, key, known)
		}
	}
	return k.Merge(in)
}

func (a *App) loadEnv(k *koanf.Koanf, known []string) error {
	names := make([]string, len(known))
	for i, key := range known {
		names[i] = variable(key)
	}
	var bad error
	err := k.Load(env.Provider(".", env.Opt{
		Prefix:      "PAWL_",
		EnvironFunc: func() []string { return a.Env },
		TransformFunc: func(name, value string) (string, any) {
			i := slices.Index(names, name)
			switch {
			case value == "": // as good as not set
			case i >= 0 && slices.Contains(lists, known[i]):
				return known[i], strings.Fields(value)
			case i >= 0:
				return known[i], value
			case !isForeign(name) && bad == nil:
				bad = unknownKey("the environment", name, names)
			}
			return "", nil
		},
	}), nil)
	return errors.Join(bad, err)
}

func (c Config) check() error {
	if c.Output != "table" && c.Output != "json" {
		return Invalid("output is table or json, not %q", c.Output)
	}
	if c.Serve.Auth != "" && c.Serve.Auth != "required" {
		return Invalid("serve.auth is required or nothing, not %q", c.Serve.Auth)
	}
	if c.Serve.MCPTools != "" && !slices.Contains(mcp.ToolSets, c.Serve.MCPTools) {
		return Invalid("serve.mcp_tools is one of %s, not %q", strings.Join(mcp.ToolSets, ", "), c.Serve.MCPTools)
	}
	if c.Migrate != "up" && c.Migrate != "off" {
		return Invalid("migrate is up or off, not %q", c.Migrate)
	}
	if _, err := c.provenance(); err != nil {
		return err
	}
	var level slog.Level
	if level.UnmarshalText([]byte(c.Log)) != nil {
		return Invalid("log is debug, info, warn or error, not %q", c.Log)
	}
	return nil
}

// provenance is what the calls carry; nothing without the setting.
func (c Config) provenance() (p pawl.Provenance, err error) {
	if c.Provenance == "" {
		return p, nil
	}
	in := json.NewDecoder(strings.NewReader(c.Provenance))
	in.DisallowUnknownFields()
	if err := in.Decode(&p); err != nil {
		return p, Invalid("provenance: %v", err)
	}
	return p, nil
}

// Getenv returns a variable of the environment, "" if it is not set.
func (a *App) Getenv(name string) string {
	for _, v := range a.Env {
		if rest, found := strings.CutPrefix(v, name+"="); found {
			return rest
		}
	}
	return ""
}

func variable(key string) string {
	return "PAWL_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

func isForeign(name string) bool {
	return slices.ContainsFunc(foreign, func(p string) bool {
		stem, many := strings.CutSuffix(p, "*")
		return name == p || many && strings.HasPrefix(name, stem)
	})
}

// isSection says that a key without members (`serve:` alone) is a known one.
func isSection(key string, known []string) bool {
	return slices.ContainsFunc(known, func(k string) bool { return strings.HasPrefix(k, key+".") })
}

func unknownKey(where, key string, known []string) error {
	if near := nearest.Of(key, known); near != "" {
		return Invalid("%s has an unknown setting %s; did you mean %s?", where, key, near)
	}
	return Invalid("%s has an unknown setting %s", where, key)
}

// KeysOf lists the keys of a struct of settings.
func KeysOf(t reflect.Type, prefix string) []string {
	var keys []string
	for f := range t.Fields() {
		tag := f.Tag.Get("koanf")
		switch {
		case tag == "":
		case f.Type.Kind() == reflect.Struct:
			keys = append(keys, KeysOf(f.Type, prefix+tag+".")...)
		default:
			keys = append(keys, prefix+tag)
		}
	}
	return keys
}

// RelayConfig names the sinks of `pawl serve`, each as NAME=URL. What the kind of
// sink may be told stands behind a # at the URL's end, written like a query.
// Messages of errors name sinks, never URLs: these hold passwords.
type RelayConfig struct {
	Sinks   []string `koanf:"sinks"`
	Secrets []string `koanf:"secrets"` // NAME=whsec_…, several for one sink while they are changed
	Origin  string   `koanf:"origin"`
}

// lists are the settings that hold several values: in a variable, words.
var lists = []string{"relay.sinks", "relay.secrets", "worker.pass_env"}
