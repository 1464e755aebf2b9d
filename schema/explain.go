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
	var external *jsonschema.LoadURLError
	if errors.As(err, &external) {
		return oneField(
			findPointer(doc, "", func(key string, v any) bool { return refersTo(key, v, external.URL) }),
			"refers to another document; schemas are never fetched: put the definition under $defs",
		)
	}
	var bad *jsonschema.SchemaValidationError
	var inside *jsonschema.ValidationError
	if errors.As(err, &bad) && errors.As(bad.Err, &inside) {
		return fieldsOf(inside)
	}
	var re *jsonschema.InvalidRegexError
	if errors.As(err, &re) {
		at := findPointer(doc, "", func(key string, v any) bool { return v == any(re.Regex) || key == re.Regex })
		return oneField(at, "is %s, %s", quote(re.Regex), whyNoPattern(re.Regex, re.Err))
	}
	var missing *jsonschema.JSONPointerNotFoundError
	var anchor *jsonschema.AnchorNotFoundError
	if errors.As(err, &missing) || errors.As(err, &anchor) {
		at := findPointer(doc, "", func(key string, v any) bool {
			s, ok := v.(string)
			_, frag, has := strings.Cut(s, "#")
			return ok && has && isRef(key) && frag != "" && strings.Contains(err.Error(), strings.ReplaceAll(frag, `"`, `\"`))
		})
		return oneField(at, "refers to a definition that the schema does not have")
	}
	return oneField("", "is not a valid schema: %s", strings.ReplaceAll(err.Error(), schemaURL, ""))
}

func isRef(key string) bool { return key == "$ref" || key == "$dynamicRef" }

func refersTo(key string, v any, url string) bool {
	s, ok := v.(string)
	s, _, _ = strings.Cut(s, "#")
	return ok && isRef(key) && s != "" && strings.HasSuffix(url, strings.TrimLeft(s, "./"))
}

// findPointer returns the pointer of the first member that meant accepts; "" if there is none.
func findPointer(v any, at string, match func(key string, v any) bool) string {
	switch v := v.(type) {
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			here := at + "/" + escape(k)
			if match(k, v[k]) {
				return here
			}
			if below := findPointer(v[k], here, match); below != "" {
				return below
			}
		}
	case []any:
		for i, e := range v {
			if below := findPointer(e, at+"/"+strconv.Itoa(i), match); below != "" {
				return below
			}
		}
	}
	return ""
}

// dialectOf returns the draft that $schema names, in one form.
func dialectOf(v any) string {
	s, _ := v.(string)
	s = strings.TrimSuffix(s, "#")
	if s == strings.Replace(Draft7, "http:", "https:", 1) {
		return Draft7
	}
	return s
}

// inspect checks a schema before it is compiled: its size, and its dialect.
func inspect(doc any) []pawl.Field {
	nodes, dialect := 0, Dialect
	if root, ok := doc.(map[string]any); ok && dialectOf(root["$schema"]) == Draft7 {
		dialect = Draft7
	}
	var bad []pawl.Field
	var walk func(v any, at string)
	walk = func(v any, at string) {
		if nodes++; nodes > maxNodes || len(bad) > 0 {
			return
		}
		switch v := v.(type) {
		case map[string]any:
			for k, e := range v {
				if s, ok := e.(string); ok && k == "$schema" && dialectOf(s) != dialect {
					if bad = oneField(at+"/$schema", "is %s; schemas are read as %s or %s", quote(s), Dialect, Draft7); at != "" {
						bad = oneField(at+"/$schema", "is %s, and the schema is read as %s", quote(s), dialect)
					}
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
		return oneField("", "has more than %d parts", maxNodes)
	}
	return bad
}
