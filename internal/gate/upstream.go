package gate

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-work/pawl"
)

// Upstream is a service that agents call through the gate.
type Upstream struct {
	URL string // its base; the rest of a path is appended
	// Effects are the calls that are effects, each METHOD /path, with * for a segment and a final /** for any
	// rest; empty = all but GET, HEAD and OPTIONS. The others pass through.
	Effects    []string
	KeyHeader  string            // the header that carries the effect's key; "" = none
	Repeatable bool              // the service recognises the key, so that an unknown effect is sent again
	Headers    map[string]string // sent with each request; env:NAME and file:PATH are replaced by what is there
	Probe      string            // a path that is read with {key} to learn whether an unknown effect happened; "" = none
	Budget     string            // the budget that each effect costs; "" = none
	Amount     string            // what it costs: a number, or a JSON Pointer into the request's body
	Approve    bool              // a person approves each effect before it is sent
	Changed    string            // what becomes of a request that no earlier attempt sent: ask (default) or new; see docs/effects.md
}

// upstream is an Upstream that was checked.
type upstream struct {
	Upstream
	name    string
	base    *url.URL
	headers http.Header
}

// reading are the methods that change nothing.
var reading = []string{http.MethodGet, http.MethodHead, http.MethodOptions}

// check reads the credentials, and refuses what cannot work.
func (u Upstream) check(name string, getenv func(string) string) (*upstream, error) {
	at := func(member, format string, args ...any) error {
		return pawl.Invalid("/gate/upstreams/"+name+member, format, args...)
	}
	out := &upstream{Upstream: u, name: name, headers: http.Header{}}
	var err error
	if name == "" || strings.ContainsAny(name, "/?#%{}") {
		return nil, at("", "the name of an upstream is a segment of a path")
	}
	if out.base, err = url.Parse(u.URL); err != nil || out.base.Host == "" || out.base.Scheme != "https" && out.base.Scheme != "http" {
		return nil, at("/url", "must be an http or https URL")
	}
	for i, e := range u.Effects {
		method, pattern, two := strings.Cut(e, " ")
		if _, err := path.Match(strings.TrimSuffix(pattern, "/**"), ""); !two || err != nil || method == "" || !strings.HasPrefix(pattern, "/") {
			return nil, at("/effects/"+strconv.Itoa(i), "is %q; it must be METHOD /path", e)
		}
	}
	if u.Amount != "" && u.Budget == "" {
		return nil, at("/amount", "needs a budget")
	}
	if n, err := strconv.ParseInt(u.Amount, 10, 64); u.Budget != "" && !strings.HasPrefix(u.Amount, "/") && (err != nil || n < 1) {
		return nil, at("/amount", "must be a number above 0, or a JSON Pointer into the request's body")
	}
	if u.Changed != "" && u.Changed != "ask" && u.Changed != "new" {
		return nil, at("/changed", "must be ask or new")
	}
	for header, value := range u.Headers {
		secret, err := Resolve(value, getenv)
		if err != nil {
			return nil, at("/headers/"+header, "%v", err)
		}
		out.headers.Set(header, secret)
	}
	return out, nil
}

// Resolve returns what a value of the configuration stands for. Its error shows no secret.
func Resolve(value string, getenv func(string) string) (string, error) {
	if name, is := strings.CutPrefix(value, "env:"); is {
		if secret := getenv(name); secret != "" {
			return secret, nil
		}
		return "", &pawl.Error{Code: pawl.CodeInvalid, Message: "the variable " + name + " is not set"}
	}
	if file, is := strings.CutPrefix(value, "file:"); is {
		data, err := os.ReadFile(file)
		if err != nil {
			return "", &pawl.Error{Code: pawl.CodeInvalid, Message: "the file " + file + " cannot be read"}
		}
		return strings.TrimSpace(string(data)), nil
	}
	return value, nil
}

// isEffect reports whether a call changes something.
func (u *upstream) isEffect(method, at string) bool {
	if len(u.Effects) == 0 {
		return !slices.Contains(reading, method)
	}
	return slices.ContainsFunc(u.Effects, func(e string) bool {
		want, pattern, _ := strings.Cut(e, " ")
		if want != method {
			return false
		}
		if prefix, any := strings.CutSuffix(pattern, "/**"); any { // with the prefix itself
			return path.Clean(at) == path.Clean(prefix) || strings.HasPrefix(at, prefix+"/")
		}
		fits, _ := path.Match(path.Clean(pattern), path.Clean(at)) // it was checked
		return fits
	})
}

// address is where a call goes.
func (u *upstream) address(at, query string) string {
	to := *u.base
	to.Path, to.RawPath = strings.TrimSuffix(to.Path, "/")+at, ""
	to.RawQuery = query
	return to.String()
}

// price is what a request costs.
func (u *upstream) price(body []byte) (int64, error) {
	if u.Budget == "" {
		return 0, nil
	}
	if n, err := strconv.ParseInt(u.Amount, 10, 64); err == nil {
		return n, nil
	}
	var v any
	dec := json.NewDecoder(strings.NewReader(string(body)))
	dec.UseNumber()
	err := dec.Decode(&v)
	for _, name := range strings.Split(u.Amount, "/")[1:] {
		name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
		switch in := v.(type) {
		case map[string]any:
			v = in[name]
		case []any:
			i, bad := strconv.Atoi(name)
			if v = nil; bad == nil && i >= 0 && i < len(in) {
				v = in[i]
			}
		default:
			v = nil
		}
	}
	number, is := v.(json.Number)
	n, bad := number.Int64()
	if err != nil || !is || bad != nil || n < 1 {
		return 0, pawl.Invalid(u.Amount, "the request costs what stands there: a whole number above 0")
	}
	return n, nil
}
