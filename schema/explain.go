package schema

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/pawl-work/pawl"
)

// explain describes why a schema does not compile.
func explain(doc any, err error) []pawl.Field {
	var away *jsonschema.LoadURLError
	if errors.As(err, &away) {
		return one(
			where(doc, "", func(key string, v any) bool { return refersTo(key, v, away.URL) }),
			"leads out of the schema; schemas are never fetched, put what it needs under $defs",
		)
	}
	var bad *jsonschema.SchemaValidationError
	var inside *jsonschema.ValidationError
	if errors.As(err, &bad) && errors.As(bad.Err, &inside) {
		return tell(inside)
	}
	var re *jsonschema.InvalidRegexError
	if errors.As(err, &re) {
		at := where(doc, "", func(key string, v any) bool { return v == any(re.Regex) || key == re.Regex })
		return one(at, "is no pattern that can be used: %v (RE2: no look-around, no back-references)", re.Err)
	}
	var lost *jsonschema.JSONPointerNotFoundError
	var anchor *jsonschema.AnchorNotFoundError
	if errors.As(err, &lost) || errors.As(err, &anchor) {
		at := where(doc, "", func(key string, v any) bool {
			s, ok := v.(string)
			_, frag, has := strings.Cut(s, "#")
			return ok && has && isRef(key) && frag != "" && strings.Contains(err.Error(), strings.ReplaceAll(frag, `"`, `\"`))
		})
		return one(at, "refers to a place that the schema does not have")
	}
	return one("", "is no schema: %s", strings.ReplaceAll(err.Error(), home, ""))
}

func isRef(key string) bool { return key == "$ref" || key == "$dynamicRef" }

func refersTo(key string, v any, url string) bool {
	s, ok := v.(string)
	s, _, _ = strings.Cut(s, "#")
	return ok && isRef(key) && s != "" && strings.HasSuffix(url, strings.TrimLeft(s, "./"))
}

// where returns the pointer of the first member that meant accepts; "" if there is none.
func where(v any, at string, meant func(key string, v any) bool) string {
	switch v := v.(type) {
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			here := at + "/" + escape(k)
			if meant(k, v[k]) {
				return here
			}
			if below := where(v[k], here, meant); below != "" {
				return below
			}
		}
	case []any:
		for i, e := range v {
			if below := where(e, at+"/"+strconv.Itoa(i), meant); below != "" {
				return below
			}
		}
	}
	return ""
}

// inspect checks a schema before it is compiled: its size, and its dialect.
func inspect(doc any) []pawl.Field {
	nodes := 0
	var bad []pawl.Field
	var walk func(v any, at string)
	walk = func(v any, at string) {
		if nodes++; nodes > maxNodes || len(bad) > 0 {
			return
		}
		switch v := v.(type) {
		case map[string]any:
			for k, e := range v {
				if s, ok := e.(string); ok && k == "$schema" && strings.TrimSuffix(s, "#") != Dialect {
					bad = one(at+"/$schema", "is %s; schemas are read as %s", quote(s), Dialect)
				}
				walk(e, at+"/"+escape(k))
			}
		case []any:
			for i, e := range v {
				walk(e, at+"/"+strconv.Itoa(i))
			}
		}
	}
	walk(doc, "")
	if nodes > maxNodes {
		return one("", "has more than %d parts", maxNodes)
	}
	return bad
}
