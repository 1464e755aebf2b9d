package schema

import (
	"errors"
	"regexp/syntax"
	"strings"
)

// constructs are what other syntaxes of patterns have and RE2 has not.
var constructs = []struct{ text, name string }{
	{"(?=", "look-ahead"}, {"(?!", "look-ahead"}, {"(?<=", "look-behind"}, {"(?<!", "look-behind"}, {"(?>", "atomic group"},
	{"(?|", "branch reset"}, {"(?(", "condition"}, {"(?#", "comment"}, {"*+", "possessive quantifier"}, {"++", "possessive quantifier"},
	{"?+", "possessive quantifier"}, {"}+", "possessive quantifier"},
}

// whyNoPattern says why a text is no pattern.
func whyNoPattern(text string, err error) string {
	var bad *syntax.Error
	if !errors.As(err, &bad) {
		return "which " + err.Error()
	}
	if construct, name := foreign(text); construct != "" {
		return "which uses " + cut(construct, maxQuote) + ": patterns are RE2, which has no " + name
	}
	return "which is not a pattern of RE2: " + bad.Code.String() + ": " + cut(bad.Expr, maxQuote)
}

// foreign returns the first construct of a pattern that RE2 does not have.
func foreign(text string) (construct, name string) {
	class := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text):
			switch next := text[i+1]; {
			case !class && (next >= '1' && next <= '9' || next == 'k'):
				return text[i : i+2], "back-reference"
			case next == 'c':
				return text[i : i+2], "control character of this form"
			case next == 'u':
				return text[i : i+2], "character of this form; write \\x{…}"
			}
			i++
		case class:
			class = c != ']'
		case c == '[':
			class = true
		default:
			for _, f := range constructs {
				if strings.HasPrefix(text[i:], f.text) {
					return f.text, f.name
				}
			}
		}
	}
	return "", ""
}
