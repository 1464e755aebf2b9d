package gate

import (
	"net/url"
	"strings"
)

// place is the path of a call at its upstream.
type place struct {
	sent string // as it came
	text string // decoded
	// split is text with \x00 in place of each slash that came escaped. Such a slash ends no segment; but some services
	// read it as one that does. So what matters is looked up in both.
	split string
}

// placeOf returns the place of an escaped path.
func placeOf(escaped string) place {
	segments := strings.Split(escaped, "/")
	for i, s := range segments {
		segments[i] = strings.ReplaceAll(unescape(s), "/", "\x00")
	}
	return place{sent: escaped, text: unescape(escaped), split: strings.Join(segments, "/")}
}

// unescape decodes a part of a path that was parsed.
func unescape(text string) string {
	if out, err := url.PathUnescape(text); err == nil {
		return out
	}
	return text
}

// differs is what the digest of a request has beside the decoded path: nothing, unless the path has an escaped slash.
func (p place) differs() []string {
	if p.split == p.text {
		return nil
	}
	return []string{p.split}
}

// shown is the path in the name of an effect.
func (p place) shown() string {
	if p.split == p.text {
		return p.text
	}
	return p.sent
}
