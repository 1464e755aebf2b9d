package schema

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

var errBudget = errors.New("the budget is spent")

// spend takes n steps off the budget; it returns false if none are left.
func (c *instance) spend(n int) bool {
	c.steps -= n
	return c.steps >= 0
}

// charge charges every visit of a subschema that a check may reach. $dynamicRef leads to the
// anchor of a resource that the check has come through, so all anchors may be reached.
func (c *instance) charge(compiler *jsonschema.Compiler, first *jsonschema.Schema, doc any) {
	seen := map[*jsonschema.Schema]bool{}
	c.chargeVisits(first, seen)
	for _, at := range dynamicAnchors(doc, "", nil) {
		if s, err := compiler.Compile(schemaURL + "#" + at); err == nil { // else it is data
			c.chargeVisits(s, seen)
		}
	}
}

// dynamicAnchors returns the places in a schema that have a $dynamicAnchor, as fragments of a URL.
func dynamicAnchors(v any, at string, out []string) []string {
	switch v := v.(type) {
	case map[string]any:
		if _, ok := v["$dynamicAnchor"].(string); ok {
			out = append(out, at)
		}
		for k, e := range v {
			out = dynamicAnchors(e, at+"/"+url.PathEscape(escape(k)), out)
		}
	case []any:
		for i, e := range v {
			out = dynamicAnchors(e, at+"/"+strconv.Itoa(i), out)
		}
	}
	return out
}

// chargeVisits charges every visit of a subschema to the budget. It does so in the subschema's
// format check: the validator runs it early at each visit, and a failing one ends the
// visit. Only the type is checked earlier.
func (c *instance) chargeVisits(s *jsonschema.Schema, seen map[*jsonschema.Schema]bool) {
	if s == nil || seen[s] || s.Bool != nil {
		return
	}
	seen[s] = true
	same, below := children(s)
	price := 1 + len(same) + names(s)/20
	constants := constantsOf(s)
	unique := s.UniqueItems
	name, own := "", func(any) error { return nil }
	if s.Format != nil {
		name, own = s.Format.Name, s.Format.Validate
		if name == "regex" {
			own = c.regexValue
		}
	}
	s.Format = &jsonschema.Format{Name: name, Validate: func(v any) error {
		cost := price
		switch v := v.(type) {
		case string:
			cost += len(v) / 64
		case []any:
			cost += len(v)
			if unique {
				cost += comparisons(v)
			}
		case map[string]any:
			cost += len(v) * (1 + len(s.PatternProperties))
		}
		if !c.spend(cost) {
			return errBudget
		}
		for _, k := range constants {
			if err := k.check(c, v); err != nil {
				return err
			}
		}
		return own(v)
	}}
	for _, b := range append(same, below...) {
		c.chargeVisits(b, seen)
	}
}

// regexValue checks a value that must be a pattern.
func (c *instance) regexValue(v any) error {
	p, ok := v.(string)
	if !ok {
		return nil
	}
	if !c.spend(patternCost * min(len(p), maxPattern)) {
		return errBudget
	}
	tree, size, err := parsePattern(p)
	if err == nil && !c.spend(size) {
		err = errBudget
	}
	if err == nil {
		_, err = syntax.Compile(tree)
	}
	return err
}

// children returns the subschemas that a visit may lead to: for the value itself (here)
// and for its members (below).
func children(s *jsonschema.Schema) (here, below []*jsonschema.Schema) {
	here = []*jsonschema.Schema{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else}
	below = []*jsonschema.Schema{s.PropertyNames, s.UnevaluatedProperties, s.Contains, s.Items2020, s.UnevaluatedItems, s.ContentSchema}
	if s.DynamicRef != nil {
		here = append(here, s.DynamicRef.Ref)
	}
	for _, list := range [][]*jsonschema.Schema{s.AllOf, s.AnyOf, s.OneOf} {
		here = append(here, list...)
	}
	for _, p := range s.DependentSchemas {
		here = append(here, p)
	}
	for _, d := range s.Dependencies {
		if p, ok := d.(*jsonschema.Schema); ok {
			here = append(here, p)
		}
	}
	below = append(below, s.PrefixItems...)
	for _, items := range []any{s.Items, s.AdditionalItems} { // before 2020-12
		switch items := items.(type) {
		case *jsonschema.Schema:
			below = append(below, items)
		case []*jsonschema.Schema:
			below = append(below, items...)
		}
	}
	for _, p := range s.Properties {
		below = append(below, p)
	}
	for _, p := range s.PatternProperties {
		below = append(below, p)
	}
	if p, ok := s.AdditionalProperties.(*jsonschema.Schema); ok {
		below = append(below, p)
	}
	absent := func(p *jsonschema.Schema) bool { return p == nil }
	return slices.DeleteFunc(here, absent), slices.DeleteFunc(below, absent)
}

// pattern is a regular expression whose matching is charged to the budget. Matching is
// linear in the text, but a long pattern on a long text still takes long.
type pattern struct {
	*regexp.Regexp
	size int // instructions
	c    *instance
}

// MatchString implements jsonschema.Regexp.
func (p *pattern) MatchString(s string) bool {
	return p.c.spend(1+p.size*len(s)/64) && p.Regexp.MatchString(s)
}

// patternCost is the cost of a character of a pattern that is a value (format "regex").
const patternCost = 200

var errPatterns = errors.New("makes the patterns of the schema too large")

// regexp compiles a pattern of the schema, once.
func (c *instance) regexp(s string) (jsonschema.Regexp, error) {
	if p := c.patterns[s]; p != nil {
		return p, nil
	}
	if c.text -= len(s); c.text < 0 {
		return nil, errPatterns
	}
	_, size, err := parsePattern(s)
	if err != nil {
		return nil, err
	}
	if c.program -= size; c.program < 0 {
		return nil, errPatterns
	}
	re, err := regexp.Compile(s)
	if err != nil {
		return nil, err
	}
	p := &pattern{Regexp: re, size: size, c: c}
	c.patterns[s] = p
	return p, nil
}

// parsePattern parses a pattern and returns the size of its program, without building it.
func parsePattern(s string) (*syntax.Regexp, int, error) {
	if len(s) > maxPattern {
		return nil, 0, fmt.Errorf("has %d characters; at most %d are allowed", len(s), maxPattern)
	}
	tree, err := syntax.Parse(s, syntax.Perl)
	if err != nil {
		return nil, 0, err
	}
	return tree, sizeOf(tree), nil
}

// sizeOf bounds the number of instructions of a pattern: two for an operation.
func sizeOf(re *syntax.Regexp) int {
	size := 2 + len(re.Rune)/16
	for _, sub := range re.Sub {
		size += sizeOf(sub)
	}
	if re.Op == syntax.OpLiteral {
		size = len(re.Rune)
	}
	if re.Op == syntax.OpRepeat {
		size *= max(1, re.Min, re.Max)
	}
	return size
}
