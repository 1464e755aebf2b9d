package htmlpage

import (
	"fmt"
	"slices"
	"strings"
	"text/template/parse"
)

// escaper makes a text safe at the place where it is filled in.
type escaper func(string) string

// place is where in HTML a template is.
type place struct {
	in      kind
	element string
	name    string // of the attribute
	quote   byte
	url     urlPart
}

type kind int

const (
	inText    kind = iota
	inTag          // between the attributes of a tag
	inValue        // of an attribute
	inTitle        // of title or textarea, which have no tags
	inScript       // of script or style: nothing is filled in
	inComment      // nothing is filled in
)

// urlPart is where in a URL the value of an attribute is.
type urlPart int

const (
	noURL urlPart = iota
	urlStart
	urlPath
	urlQuery
	urlOfMeta // in the content of meta, after url=
)

// escape finds the escapers of a template. It begins and ends in a text.
func (s *Set) escape(t *parse.Tree) error {
	end, err := s.list(place{}, t.Root)
	if err == nil && end.in != inText {
		err = fmt.Errorf("it ends inside of %s", end.element)
	}
	return err
}

func (s *Set) list(at place, l *parse.ListNode) (_ place, err error) {
	if l == nil {
		return at, nil
	}
	for _, n := range l.Nodes {
		switch n := n.(type) {
		case *parse.TextNode:
			at, err = at.after(string(n.Text))
		case *parse.ActionNode:
			if len(n.Pipe.Decl) == 0 {
				s.escapes[n], err = at.escapers()
			}
		case *parse.TemplateNode:
			if at.in != inText && at.in != inTitle {
				err = fmt.Errorf("%s is inside of a tag", n)
			}
		case *parse.IfNode:
			at, err = s.branch(at, &n.BranchNode, at)
		case *parse.WithNode:
			at, err = s.branch(at, &n.BranchNode, at)
		case *parse.RangeNode:
			at, err = s.branch(at, &n.BranchNode, at)
		case *parse.CommentNode:
		default:
			err = fmt.Errorf("%s is not supported", n)
		}
		if err != nil {
			return at, err
		}
	}
	return at, nil
}

// branch goes through both ways of a branch, which must end at the same place.
func (s *Set) branch(at place, n *parse.BranchNode, without place) (place, error) {
	one, err := s.list(at, n.List)
	if err != nil {
		return at, err
	}
	other, err := s.list(without, n.ElseList)
	if err != nil {
		return at, err
	}
	one.url = max(one.url, other.url)
	if other.url = one.url; one.in == inTag {
		one.name, other.name = "", ""
	}
	if one != other {
		return at, fmt.Errorf("the ways of %.40s end at different places", n)
	}
	return one, nil
}

// escapers returns the escapers of what is filled in here; none = it is a text, where HTML needs no escaper.
func (p place) escapers() ([]escaper, error) {
	if p.in == inText {
		return nil, nil
	}
	if p.in == inTitle {
		return []escaper{escapeHTML}, nil
	}
	if p.in != inValue || strings.HasPrefix(p.name, "on") || p.name == "style" || p.name == "srcset" || p.name == "srcdoc" {
		return nil, fmt.Errorf("nothing may be filled in here, in %s %s", p.element, p.name)
	}
	switch p.url {
	case urlStart:
		return []escaper{filterURL, normalizeURL, escapeHTML}, nil
	case urlOfMeta:
		return []escaper{filterURL, escapeHTML}, nil
	case urlPath:
		return []escaper{normalizeURL, escapeHTML}, nil
	case urlQuery:
		return []escaper{escapeURL, escapeHTML}, nil
	}
	return []escaper{escapeHTML}, nil
}

// after returns the place after a text.
func (p place) after(text string) (place, error) {
	for text != "" {
		n := 1
		switch p.in {
		case inText:
			p, n = p.text(text)
		case inTag:
			var err error
			if p, n, err = p.tag(text); err != nil {
				return p, err
			}
		case inValue:
			p = p.value(text)
		case inTitle, inScript:
			if end := "</" + p.element; len(text) >= len(end) && strings.EqualFold(text[:len(end)], end) {
				p, n = place{in: inTag, element: end[1:]}, len(end)
			}
		case inComment:
			if strings.HasPrefix(text, "-->") {
				p, n = place{}, len("-->")
			}
		}
		text = text[n:]
	}
	return p, nil
}

func (p place) text(text string) (place, int) {
	if strings.HasPrefix(text, "<!--") {
		return place{in: inComment}, len("<!--")
	}
	if text[0] != '<' {
		return p, 1
	}
	end := strings.IndexAny(text, " \n\t/>")
	if end == 1 { // of an end tag
		end = 2 + strings.IndexAny(text[2:]+">", " \n\t>")
	}
	if end < 0 {
		end = len(text)
	}
	return place{in: inTag, element: strings.ToLower(text[1:end])}, end
}

func (p place) tag(text string) (place, int, error) {
	switch c := text[0]; c {
	case '>':
		to := place{element: p.element}
		switch p.element {
		case "title", "textarea":
			to.in = inTitle
		case "script", "style":
			to.in = inScript
		default:
			to.element = ""
		}
		return to, 1, nil
	case ' ', '\n', '\t', '/':
		p.name = ""
	case '=':
		if len(text) < 2 || text[1] != '"' && text[1] != '\'' {
			return p, 0, fmt.Errorf("the value of %s has no quotes", p.name)
		}
		p.in, p.quote = inValue, text[1]
		if isURL(p.name) {
			p.url = urlStart
		}
		return p, 2, nil
	default:
		p.name += strings.ToLower(string(c))
	}
	return p, 1, nil
}

func (p place) value(text string) place {
	switch c := text[0]; {
	case c == p.quote:
		return place{in: inTag, element: p.element}
	case p.element == "meta" && p.name == "content" && p.url == noURL && strings.HasPrefix(text, "="):
		p.url = urlOfMeta
	case p.url == urlOfMeta:
	case p.url != noURL && (c == '?' || c == '#'):
		p.url = urlQuery
	case p.url == urlStart:
		p.url = urlPath
	}
	return p
}

var urls = []string{"action", "archive", "background", "cite", "classid", "codebase", "data", "formaction", "href", "icon", "longdesc",
	"manifest", "poster", "profile", "src", "usemap", "xmlns"}

func isURL(attribute string) bool {
	name := strings.TrimPrefix(attribute, "data-")
	_, local, found := strings.Cut(name, ":")
	if found {
		name = local
	}
	return slices.Contains(urls, name) || strings.Contains(name, "src") || strings.Contains(name, "uri") || strings.Contains(name, "url")
}

var escapedHTML = strings.NewReplacer("\x00", "\uFFFD", `"`, "&#34;", "&", "&amp;", "'", "&#39;", "+", "&#43;", "<", "&lt;", ">", "&gt;")

func escapeHTML(text string) string { return escapedHTML.Replace(text) }

// filterURL replaces a URL of another scheme than http, https and mailto.
func filterURL(text string) string {
	scheme, _, found := strings.Cut(text, ":")
	if found && !strings.Contains(scheme, "/") && !slices.ContainsFunc([]string{"http", "https", "mailto"},
		func(s string) bool { return strings.EqualFold(s, scheme) }) {
		return "#ZgotmplZ"
	}
	return text
}

// normalizeURL escapes what a URL may not have, and leaves what it may have.
func normalizeURL(text string) string { return percent(text, "-._~!#$&*+,/:;=?@[]", true) }

// escapeURL escapes all that has a meaning in a URL.
func escapeURL(text string) string { return percent(text, "-._~", false) }

func percent(text, plain string, escaped bool) string {
	var b strings.Builder
	for i := range len(text) {
		c := text[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte(plain, c) >= 0,
			escaped && c == '%' && i+2 < len(text) && isHex(text[i+1]) && isHex(text[i+2]):
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02x", c)
		}
	}
	return b.String()
}

func isHex(c byte) bool { return strings.IndexByte("0123456789abcdefABCDEF", c) >= 0 }
