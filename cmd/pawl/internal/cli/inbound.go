package cli

import (
	"os"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/inbound"
)

// InboundConfig defines a source of webhooks. Its secrets may be any value here, so that no
// error of decoding shows one.
type InboundConfig struct {
	Form             string              `koanf:"form"`
	Secret           any                 `koanf:"secret"`
	Secrets          any                 `koanf:"secrets"`
	SecretFile       string              `koanf:"secret_file"` // of one or more lines, each a secret
	SecretEnv        string              `koanf:"secret_env"`  // the name of a variable with one or more words, each a secret
	ToleranceSeconds int                 `koanf:"tolerance_seconds"`
	KeepSeconds      int                 `koanf:"keep_seconds"`
	Namespace        string              `koanf:"namespace"`
	ID               string              `koanf:"id"`
	Task             inboundTaskConfig   `koanf:"task"`
	Signal           inboundSignalConfig `koanf:"signal"`
}

type inboundTaskConfig struct {
	Type        string `koanf:"type"`
	Payload     string `koanf:"payload"`
	Title       string `koanf:"title"`
	Priority    int    `koanf:"priority"`
	MaxAttempts int    `koanf:"max_attempts"`
}

type inboundSignalConfig struct {
	Name    string `koanf:"name"`
	Key     string `koanf:"key"`
	Payload string `koanf:"payload"`
}

// Options returns the definition with its secrets.
func (c InboundConfig) Options(getenv func(string) string) (inbound.Options, error) {
	o := inbound.Options{
		Form: c.Form, Tolerance: time.Duration(c.ToleranceSeconds) * time.Second, Keep: time.Duration(c.KeepSeconds) * time.Second,
		Namespace: c.Namespace, ID: c.ID,
	}
	if c.Task != (inboundTaskConfig{}) {
		o.Task = new(inbound.Task(c.Task))
	}
	if c.Signal != (inboundSignalConfig{}) {
		o.Signal = new(inbound.Signal(c.Signal))
	}
	var err error
	o.Secrets, err = c.secrets(getenv)
	return o, err
}

func (c InboundConfig) secrets(getenv func(string) string) (out []string, err error) {
	if out, err = secretsOf("", c.Secret, c.Secrets); err != nil {
		return nil, err
	}
	if c.SecretEnv != "" {
		words := strings.Fields(getenv(c.SecretEnv))
		if len(words) == 0 {
			return nil, pawl.Invalid("/secret_env", "the variable %s is not set", c.SecretEnv)
		}
		out = append(out, words...)
	}
	if c.SecretFile != "" {
		data, err := os.ReadFile(c.SecretFile)
		if err != nil {
			return nil, pawl.Invalid("/secret_file", "cannot be read: %v", err)
		}
		lines := strings.FieldsFunc(string(data), func(r rune) bool { return r == '\n' || r == '\r' })
		if len(lines) == 0 {
			return nil, pawl.Invalid("/secret_file", "%s is empty", c.SecretFile)
		}
		out = append(out, lines...)
	}
	return out, nil
}

// secretsOf returns the values of the members secret and secrets of settings.
func secretsOf(where string, one, several any) (out []string, err error) {
	switch secret := one.(type) {
	case nil:
	case string:
		out = append(out, secret)
	default:
		return nil, pawl.Invalid(where+"/secret", "must be a text")
	}
	list, is := several.([]any)
	if several != nil && !is {
		return nil, pawl.Invalid(where+"/secrets", "must be a list of texts")
	}
	for _, v := range list {
		secret, is := v.(string)
		if !is {
			return nil, pawl.Invalid(where+"/secrets", "must be a list of texts")
		}
		out = append(out, secret)
	}
	return out, nil
}

// inboundMember returns the member of a source that a key of the settings names, such as
// task.type of serve.inbound.NAME.task.type. inbound says that the key is one of a source.
func inboundMember(key string) (member string, inbound bool) {
	rest, inbound := strings.CutPrefix(key, "serve.inbound.")
	if !inbound {
		return "", false
	}
	_, member, _ = strings.Cut(rest, ".")
	return member, true
}

func prefixed(prefix string, names []string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = prefix + name
	}
	return out
}
