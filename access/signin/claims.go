// Package signin identifies callers by an identity provider: Verifier by the JSON web tokens
// that it issues for the API, Provider by OpenID Connect for browsers.
package signin

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
)

// Claims say which claims of a token name its holder and the holder's groups.
type Claims struct {
	// Name is the claim that names the actor; "" = preferred_username, else sub. The claim
	// email counts only if email_verified is true.
	Name string
	// Groups is the claim with the groups, a list of texts or one text; "" = groups. A name
	// with dots, such as realm_access.roles, is also looked up as a path.
	Groups string
	// Roles are the roles of the groups.
	Roles access.Groups
}

// principal returns whom the claims of an issuer name. The error is unauthenticated.
func (c Claims) principal(issuer string, claims map[string]any, expires time.Time) (access.Principal, error) {
	sub, _ := claims["sub"].(string)
	if sub == "" || len(sub) > pawl.MaxIDLen || !plain(sub) {
		return access.Principal{}, refused("the token has no usable claim sub")
	}
	name, _ := claims[cmp.Or(c.Name, "preferred_username")].(string)
	if c.Name == "" && name == "" {
		name = sub
	}
	if name == "" || len(name) > pawl.MaxIDLen || !plain(name) {
		return access.Principal{}, refused("the token has no usable claim " + cmp.Or(c.Name, "preferred_username"))
	}
	if c.Name == "email" && !isTrue(claims["email_verified"]) {
		return access.Principal{}, refused("the email of the token is not verified (email_verified)")
	}
	return access.Principal{ID: issuer + "#" + sub, Name: name, Grants: c.Roles.Grants(c.groups(claims)), Expires: expires}, nil
}

func (c Claims) groupsClaim() string { return cmp.Or(c.Groups, "groups") }

func (c Claims) groups(claims map[string]any) []string {
	var out []string
	switch v := lookUp(claims, c.groupsClaim()).(type) {
	case string:
		out = append(out, v)
	case []any:
		for _, g := range v {
			if text, is := g.(string); is {
				out = append(out, text)
			}
		}
	}
	return out
}

// lookUp returns the member of a name, or of a path with dots.
func lookUp(claims map[string]any, name string) any {
	if v, is := claims[name]; is {
		return v
	}
	first, rest, path := strings.Cut(name, ".")
	inner, _ := claims[first].(map[string]any)
	if !path || inner == nil {
		return nil
	}
	return lookUp(inner, rest)
}

func isTrue(v any) bool { return v == true || v == "true" } // some providers write it as text

func plain(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

// seconds returns a time of a token. ok is false if the claim is there and is no time.
func seconds(claims map[string]any, name string) (at time.Time, there, ok bool) {
	v, there := claims[name]
	if !there {
		return at, false, true
	}
	n, _ := v.(json.Number)
	f, err := n.Float64()
	if err != nil || f < 0 || f > 1<<37 { // the year 6325
		return at, true, false
	}
	return time.Unix(int64(f), 0), true, true
}

func refused(why string) error { return &pawl.Error{Code: pawl.CodeUnauthenticated, Message: why} }
