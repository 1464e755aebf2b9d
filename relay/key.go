package relay

import (
	"fmt"
	"strings"
)

// Escape escapes text for use as one word of a routing key or subject. Separators,
// wildcards, white space, control characters and the percent sign become %XX. Empty text
// becomes "%".
func Escape(text string) string {
	if text == "" {
		return "%"
	}
	var b strings.Builder
	for i := range len(text) {
		switch c := text[i]; {
		case c <= ' ' || c == 0x7f || strings.IndexByte(".*#>%", c) >= 0:
			fmt.Fprintf(&b, "%%%02X", c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// Key is the routing key `<namespace>.<type>.<event>`; each part is escaped by Word.
func (m Message) Key() string {
	return Escape(m.Event.Namespace) + "." + Escape(m.Event.TaskType) + "." + Escape(m.Event.Event)
}
