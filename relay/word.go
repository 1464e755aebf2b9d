package relay

import (
	"fmt"
	"strings"
)

// Word makes one word of a routing key or subject of any text: what separates
// words, what stands for others in patterns, spaces and controls are written as
// %XX, and so is the percent sign. Empty text is "%".
func Word(text string) string {
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

// Key is `<namespace>.<type>.<event>`, each one Word.
func (m Message) Key() string {
	return Word(m.Event.Namespace) + "." + Word(m.Event.TaskType) + "." + Word(m.Event.Event)
}
