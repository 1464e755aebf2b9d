package gate

import (
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
	// Prices are what calls cost, each METHOD /path AMOUNT, with a path as in Effects and an amount as above. The first
	// that fits counts, then Amount; without either a call costs nothing.
	Prices []string
	// Charge are JSON Pointers into the upstream's answer: the sum of the numbers there is what the effect has cost, at most
	// what Amount or Prices have reserved; empty = it has cost that.
	Charge  []string
	Approve bool   // a person approves each effect before it is sent
	Changed string // what becomes of a request that no earlier attempt sent: ask (default) or new; see docs/effects.md
}

// upstream is an Upstream that was checked.
type upstream struct {
	Upstream
	name    string
	base    *url.URL
	headers http.Header
	sets    []string // the headers that the gate sets, in the form of plain
}

// reading are the methods that change nothing.
var reading = []string{http.MethodGet, http.MethodHead, http.MethodOptions}

// check reads the credentials, and refuses what cannot work.
func (u Upstream) check(name string, getenv func(string) string) (*upstream, error) {
	at := func(member, format string, args ...any) error {
		return pawl.Invalid("/gate/upstreams/"+name+member, format, args...)
	}
	out := &upstream{Upstream: u, name: name, headers: http.Header{}, sets: []string{plain(u.KeyHeader)}}
	var err error
	if name == "" || strings.ContainsAny(name, "/?#%{}") {
		return nil, at("", "the name of an upstream is a segment of a path")
	}
	if out.base, err = url.Parse(u.URL); err != nil || out.base.Host == "" || out.base.Scheme != "https" && out.base.Scheme != "http" {
		return nil, at("/url", "must be an http or https URL")
	}
	for i, e := range u.Effects {
		if !isCall(e) {
			return nil, at("/effects/"+strconv.Itoa(i), "is %q; it must be METHOD /path", e)
		}
	}
	if err := u.checkPrices(at); err != nil {
		return nil, err
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
		out.sets = append(out.sets, plain(header))
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

// isCall reports whether a text is METHOD /path.
func isCall(text string) bool {
	method, pattern, two := strings.Cut(text, " ")
	_, err := path.Match(strings.TrimSuffix(pattern, "/**"), "")
	return two && err == nil && method != "" && strings.HasPrefix(pattern, "/")
}

// isAmount reports whether a text is a number above 0, or a JSON Pointer to one.
func isAmount(text string) bool {
	n, err := strconv.ParseInt(text, 10, 64)
	return isPointer(text) || err == nil && n > 0 && n <= pawl.MaxBudgetAmount
}

// checkPrices refuses prices that cannot be read.
func (u *Upstream) checkPrices(at func(member, format string, args ...any) error) error {
	if len(u.Charge) > 0 && (u.Budget == "" || !CheckCharge(u.Charge)) {
		return at("/charge", "must be JSON Pointers into the answer, at most %d, and go with a budget", maxPointers)
	}
	if u.Budget == "" {
		if u.Amount != "" {
			return at("/amount", "needs a budget")
		} else if len(u.Prices) > 0 {
			return at("/prices", "need a budget")
		}
		return nil
	}
	if u.Amount == "" && len(u.Prices) == 0 || u.Amount != "" && !isAmount(u.Amount) {
		return at("/amount", "must be a number above 0, or a JSON Pointer into the request's body")
	}
	for i, p := range u.Prices {
		if call, amount := splitPrice(p); !isCall(call) || !isAmount(amount) {
			return at("/prices/"+strconv.Itoa(i), "is %q; it must be METHOD /path AMOUNT: a number above 0, or a JSON Pointer", p)
		}
	}
	return nil
}

// splitPrice returns the call and the amount of a price.
func splitPrice(price string) (call, amount string) {
	at := strings.LastIndex(price, " ")
	return price[:max(at, 0)], price[at+1:]
}

// isEffect reports whether a call changes something.
func (u *upstream) isEffect(method string, at place) bool {
	if len(u.Effects) == 0 {
		return !slices.Contains(reading, method)
	}
	return slices.ContainsFunc(u.Effects, func(e string) bool { return fits(e, method, at.split) || fits(e, method, at.text) })
}

// fits reports whether a call is one of METHOD /path, which was checked.
func fits(call, method, at string) bool {
	want, pattern, _ := strings.Cut(call, " ")
	if want != method {
		return false
	}
	if prefix, rest := strings.CutSuffix(pattern, "/**"); rest { // with the prefix itself
		return path.Clean(at) == path.Clean(prefix) || strings.HasPrefix(at, prefix+"/")
	}
	is, _ := path.Match(path.Clean(pattern), path.Clean(at))
	return is
}

// address is where a call goes.
func (u *upstream) address(at place, query string) string {
	to := *u.base
	to.Path, to.RawPath = strings.TrimSuffix(to.Path, "/")+at.text, strings.TrimSuffix(to.EscapedPath(), "/")+at.sent
	to.RawQuery = query
	return to.String()
}

// price is what a request costs; 0 = nothing. If its path has two readings, it is the higher price.
func (u *upstream) price(method string, at place, body []byte) (int64, error) {
	price, err := u.priceOf(method, at.text, body)
	if err != nil || at.split == at.text {
		return price, err
	}
	other, err := u.priceOf(method, at.split, body)
	return max(price, other), err
}

// priceOf is the price of one reading of a path.
func (u *upstream) priceOf(method, at string, body []byte) (int64, error) {
	amount := u.Amount
	for _, p := range u.Prices {
		if call, price := splitPrice(p); fits(call, method, at) {
			amount = price
			break
		}
	}
	switch {
	case u.Budget == "" || amount == "":
		return 0, nil
	case strings.HasPrefix(amount, "/"):
		return AmountAt(body, amount)
	}
	return strconv.ParseInt(amount, 10, 64)
}
