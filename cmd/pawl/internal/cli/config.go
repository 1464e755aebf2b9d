package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"reflect"
	"slices"
	"strings"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/providers/posflag"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/internal/nearest"
	"github.com/pawl-work/pawl/mcp"
)

const (
	defaultDB     = "sqlite:pawl.db"
	defaultFile   = "pawl.yaml"
	keyAnnotation = "pawl_key" // on a flag: the key it sets
)

// otherVariables are variables that begin with PAWL_ and are not settings: the name of the
// config file, the variables of programs run by `worker --exec`, those of tests, the binary
// for the Python package, and those that Kubernetes sets for a service named pawl.
var otherVariables = []string{"PAWL_CONFIG", "PAWL_ITEM_ID", "PAWL_TASK_ID", "PAWL_TYPE", "PAWL_ATTEMPT", "PAWL_WORKER_ID",
	"PAWL_PAYLOAD_SCHEMA", "PAWL_INPUT_SCHEMA", "PAWL_RESULT_SCHEMA", "PAWL_PARTS", "PAWL_ERROR", "PAWL_REASONS",
	"PAWL_BINARY", "PAWL_TEST_*", "PAWL_SERVICE_*", "PAWL_PORT", "PAWL_PORT_*"}

// Configure reads the settings. Flags override variables, variables override the file,
// and the file overrides the defaults. An unknown key is an error that names its source.
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
	cfg.NamespaceGiven = k.Exists("namespace")
	cfg.sweepsGiven(k.Keys(), cmd.Flags())
	db, server := given(cmd.Flags(), "db"), given(cmd.Flags(), "server")
	if db && !server {
		cfg.Server = "" // what a variable or the file names gives way to a flag
	}
	unused := a.NameDatabase(&cfg)
	a.Config = cfg
	if db && server {
		return Usage(cmd, errors.New("--db and --server exclude each other: give one of them"))
	}
	if err := cfg.check(); err != nil {
		return err
	}
	if cfg.Server == "" && len(unused) > 0 {
		a.Log().Warn("variables that look like a database's are not read", "variables", unused)
	}
	return nil
}

// given reports whether a flag was set to a non-empty value.
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

// output returns the format for the error of an invalid command line: from its flags,
// the environment or the file, as far as they can be read.
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
		if member, inbound := inboundMember(key); inbound {
			if keys := KeysOf(reflect.TypeFor[InboundConfig](), ""); !slices.Contains(keys, member) && !isSection(member, keys) {
				return unknownKey(name, key, prefixed(strings.TrimSuffix(key, member), keys))
			}
		} else if member, upstream := upstreamMember(key); upstream {
			if !isUpstreamMember(member) {
				return unknownKey(name, key, prefixed(strings.TrimSuffix(key, member), KeysOf(reflect.TypeFor[UpstreamConfig](), "")))
			}
		} else if member, pushed := pushMember(key); pushed {
			if !isPushMember(member) {
				return unknownKey(name, key, prefixed(strings.TrimSuffix(key, member), KeysOf(reflect.TypeFor[PushConfig](), "")))
			}
		} else if !strings.HasPrefix(key, "gate.tools.") && !slices.Contains(known, key) && !isSection(key, known) { // check reads those
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
			case i >= 0 && slices.Contains([]string{"serve.inbound", "gate.upstreams", "gate.tools", "push"}, known[i]):
				var sources map[string]any
				in := json.NewDecoder(strings.NewReader(value)) // a large number stays as it was written
				if known[i] == "gate.upstreams" {
					in.UseNumber()
				}
				if !json.Valid([]byte(value)) || in.Decode(&sources) != nil { // an error could show a secret
					bad = cmp.Or(bad, error(Invalid("%s is to be a JSON object of sources, upstreams, tools or targets", name)))
				}
				return known[i], sources
			case i >= 0 && words(known[i]):
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
		return Invalid("output must be table or json, not %q", c.Output)
	}
	if _, err := c.Gate.Rules(); err != nil {
		return err
	}
	if c.Serve.Auth != "" && c.Serve.Auth != "required" {
		return Invalid("serve.auth must be \"required\" or empty, not %q", c.Serve.Auth)
	}
	if err := OneOf("serve.mcp_tools", c.Serve.MCPTools, mcp.ToolSets); err != nil {
		return err
	}
	if c.Migrate != "up" && c.Migrate != "off" {
		return Invalid("migrate must be up or off, not %q", c.Migrate)
	}
	if c.Identity != "check" && c.Identity != engine.IdentityTrust {
		return Invalid("identity must be check or trust, not %q", c.Identity)
	}
	if _, err := c.provenance(); err != nil {
		return err
	}
	if _, _, err := pawl.ParseActor(c.Actor); err != nil {
		return Invalid("actor is NAME or TYPE/NAME, and a name has no slash, not %q; types: %s", c.Actor, strings.Join(pawl.ActorTypes, ", "))
	}
	if err := cmp.Or(c.Record.check(), c.Blobs.check()); err != nil {
		return err
	}
	var level slog.Level
	if level.UnmarshalText([]byte(c.Log)) != nil {
		return Invalid("log must be debug, info, warn or error, not %q", c.Log)
	}
	if c.LogFormat != "text" && c.LogFormat != "json" {
		return Invalid("log_format must be text or json, not %q", c.LogFormat)
	}
	return nil
}

// provenance returns the provenance of the calls; empty without the setting.
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
	return slices.ContainsFunc(otherVariables, func(p string) bool {
		stem, many := strings.CutSuffix(p, "*")
		return name == p || many && strings.HasPrefix(name, stem)
	})
}

// isSection reports whether a key is the name of a section without members (`serve:`
// alone).
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
	for _, f := range reflect.VisibleFields(t) {
		tag := f.Tag.Get("koanf")
		switch {
		case tag == "" || tag == ",squash": // the fields of an embedded struct are visible in the outer one
		case f.Type.Kind() == reflect.Struct:
			keys = append(keys, KeysOf(f.Type, prefix+tag+".")...)
		default:
			keys = append(keys, prefix+tag)
		}
	}
	return keys
}
