package cli

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-work/pawl/internal/gate"
	"github.com/pawl-work/pawl/internal/mcpgate"
	"github.com/pawl-work/pawl/internal/strictjson"
)

// gateConfig names the services that agents call through the gate.
type gateConfig struct {
	Upstreams map[string]UpstreamConfig `koanf:"upstreams"`
	Tools     map[string]any            `koanf:"tools"`
}

// toolConfig says what becomes of calls of an MCP tool. See mcpgate.Tool.
type toolConfig struct {
	Deny       bool   `json:"deny"`
	Read       bool   `json:"read"`
	Repeatable bool   `json:"repeatable"`
	Approve    bool   `json:"approve"`
	Budget     string `json:"budget"`
	Amount     any    `json:"amount"` // a number, or a JSON Pointer into the arguments
	Charge     any    `json:"charge"` // a JSON Pointer into the result, or a list of them
	Changed    string `json:"changed"`
}

// Rules returns the rules of tools for the gate.
func (c gateConfig) Rules() (map[string]mcpgate.Tool, error) {
	out := map[string]mcpgate.Tool{}
	return out, toolRules(out, "", c.Tools)
}

// toolRules adds the rules below a name. A name with dots is in as many maps, one in the other.
func toolRules(out map[string]mcpgate.Tool, name string, in map[string]any) error {
	rule := map[string]any{}
	for member, value := range in {
		deeper, is := value.(map[string]any)
		if !is {
			rule[member] = value
			continue
		}
		if err := toolRules(out, strings.TrimPrefix(name+"."+member, "."), deeper); err != nil {
			return err
		}
	}
	if len(rule) == 0 {
		return nil
	}
	text, err := json.Marshal(rule)
	if err != nil {
		return Invalid("gate.tools.%s cannot be read: %v", name, err)
	}
	var t toolConfig
	if err := strictjson.Read(text, &t); err != nil || name == "" {
		return Invalid("gate.tools.%s has a member that is not known, or of another kind: "+
			"deny, read, repeatable, approve, budget, amount, charge, changed", name)
	}
	out[name] = mcpgate.Tool{Deny: t.Deny, Read: t.Read, Repeatable: t.Repeatable, Approve: t.Approve, Budget: t.Budget, Changed: t.Changed,
		Charge: texts(t.Charge)}
	return setAmount(out, name, t.Amount)
}

// setAmount sets what calls of a tool cost.
func setAmount(out map[string]mcpgate.Tool, name string, amount any) error {
	t := out[name]
	switch n := amount.(type) {
	case nil:
	case float64:
		t.Amount = int64(n)
		if float64(t.Amount) != n {
			return Invalid("gate.tools.%s.amount must be a whole number", name)
		}
	case string:
		t.AmountAt = n
	default:
		return Invalid("gate.tools.%s.amount must be a number, or a JSON Pointer", name)
	}
	out[name] = t
	return nil
}

// UpstreamConfig defines a service behind the gate. See gate.Upstream.
type UpstreamConfig struct {
	URL        string         `koanf:"url"`
	Effects    []string       `koanf:"effects"`
	KeyHeader  string         `koanf:"key_header"`
	Repeatable bool           `koanf:"repeatable"`
	Headers    map[string]any `koanf:"headers"`
	Probe      probeConfig    `koanf:"probe"`
	Budget     string         `koanf:"budget"`
	Amount     any            `koanf:"amount"` // a number, or a JSON Pointer into the request's body
	Prices     []string       `koanf:"prices"` // METHOD /path AMOUNT each
	Charge     any            `koanf:"charge"` // a JSON Pointer into the answer, or a list of them
	Approve    bool           `koanf:"approve"`
	Changed    string         `koanf:"changed"`
}

// text is a value of the settings as it was written, but without an exponent.
func text(value any) string {
	if n, is := value.(json.Number); is && strings.ContainsAny(n.String(), ".eE") {
		value, _ = n.Float64() // 0 or infinity if it is out of range
	}
	if n, is := value.(float64); is {
		return strconv.FormatFloat(n, 'f', -1, 64)
	}
	return fmt.Sprint(value)
}

// texts returns the texts of a value of the settings that is one or a list.
func texts(value any) (out []string) {
	list, is := value.([]any)
	if !is && value != nil {
		list = []any{value}
	}
	for _, v := range list {
		out = append(out, fmt.Sprint(v))
	}
	return out
}

type probeConfig struct {
	Path string `koanf:"path"`
}

// Upstream returns the definition for the gate.
func (c UpstreamConfig) Upstream() gate.Upstream {
	out := gate.Upstream{URL: c.URL, Effects: c.Effects, KeyHeader: c.KeyHeader, Repeatable: c.Repeatable, Probe: c.Probe.Path,
		Budget: c.Budget, Prices: c.Prices, Approve: c.Approve, Changed: c.Changed, Headers: map[string]string{},
		Charge: texts(c.Charge)}
	if c.Amount != nil {
		out.Amount = text(c.Amount)
	}
	for name, value := range c.Headers {
		out.Headers[name] = text(value)
	}
	return out
}

// upstreamMember returns the member of an upstream that a key of the settings names, such as url of
// gate.upstreams.NAME.url. upstream says that the key is one of an upstream.
func upstreamMember(key string) (member string, upstream bool) {
	rest, upstream := strings.CutPrefix(key, "gate.upstreams.")
	if !upstream {
		return "", false
	}
	_, member, _ = strings.Cut(rest, ".")
	return member, true
}

// isUpstreamMember reports whether an upstream has such a member. Headers have any names.
func isUpstreamMember(member string) bool {
	keys := KeysOf(reflect.TypeFor[UpstreamConfig](), "")
	return slices.Contains(keys, member) || isSection(member, keys) || strings.HasPrefix(member, "headers.")
}
