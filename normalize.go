package pawl

import "strings"

// maxNormalized is how many bytes of a message are normalized.
const maxNormalized = 2000

// normalized replaces what differs between occurrences of one error; see Failure.Normalized.
func normalized(message string) string {
	message = strings.ToValidUTF8(message[:min(len(message), maxNormalized)], "")
	var out strings.Builder
	for rest := message; rest != ""; {
		if c := rest[0]; isSpace(c) {
			rest = strings.TrimLeft(rest, " \t\r\n")
			if out.Len() > 0 && rest != "" {
				out.WriteByte(' ')
			}
		} else if n := quoted(rest, out.String()); n > 0 {
			out.WriteString("<text>")
			rest = rest[n:]
		} else if strings.IndexByte(delimiters, c) >= 0 {
			out.WriteByte(c)
			rest = rest[1:]
		} else {
			n := end(rest, delimiters)
			if strings.Contains(rest[:n], "://") {
				n = end(rest, "\"'`<>()")
			}
			out.WriteString(token(rest[:n]))
			rest = rest[n:]
		}
	}
	return out.String()
}

// delimiters end a token.
const delimiters = "\"'`,;()[]{}<>=|"

// end returns where the token ends that s begins with: before one of the delimiters, or a space.
func end(s, delimiters string) int {
	if n := strings.IndexAny(s, delimiters+" \t\r\n"); n >= 0 {
		return n
	}
	return len(s)
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// quoted returns the length of the quoted text that s begins with; 0 = none. An apostrophe
// within a word is no quotation mark.
func quoted(s, before string) int {
	if c := s[0]; c != '"' && c != '\'' && c != '`' || c == '\'' && before != "" && isWord(before[len(before)-1]) {
		return 0
	}
	end := strings.IndexByte(s[1:], s[0])
	if end < 0 || strings.ContainsRune(s[1:end+1], '\n') {
		return 0
	}
	return end + 2
}

// token normalizes what stands between delimiters and spaces.
func token(t string) string {
	body := strings.TrimRight(t, ".:!?")
	tail := t[len(body):]
	switch {
	case body == "":
		return t
	case strings.Contains(body, "://"):
		return "<url>" + tail
	case isPath(body):
		return "<path>" + tail
	}
	var out strings.Builder
	for body != "" {
		n := 0
		for n < len(body) && isWord(body[n]) {
			n++
		}
		if n == 0 {
			out.WriteByte(body[0])
			body = body[1:]
			continue
		}
		if n < len(body) && digitsOnly(body[:n]) { // a decimal number, an address or a date
			for n+1 < len(body) && (body[n] == '.' || body[n] == '-') && isDigit(body[n+1]) {
				for n++; n < len(body) && isDigit(body[n]); n++ {
				}
			}
		}
		if len(body) >= uuidLen && isUUID(body[:uuidLen]) && (len(body) == uuidLen || !isWord(body[uuidLen])) {
			n = uuidLen
		}
		out.WriteString(word(body[:n]))
		body = body[n:]
	}
	return out.String() + tail
}

// isPath reports whether a token is the path of a file.
func isPath(t string) bool {
	switch {
	case len(t) < 2:
		return false
	case t[0] == '/', strings.HasPrefix(t, "./"), strings.HasPrefix(t, "../"), strings.HasPrefix(t, "~/"):
		return true
	case len(t) > 3 && isLetter(t[0]) && t[1] == ':' && (t[2] == '\\' || t[2] == '/'):
		return true
	}
	return strings.Count(t, "/") > 1 || strings.Contains(t, "/") && strings.LastIndexByte(t, '.') > strings.LastIndexByte(t, '/')
}

// minID is the length from which letters with digits among them are an id.
const minID = 16

// word normalizes a run of letters, digits and underscores.
func word(w string) string {
	digits, hex := 0, 0
	for i := range len(w) {
		if isDigit(w[i]) {
			digits++
		}
		if isDigit(w[i]) || w[i]|0x20 >= 'a' && w[i]|0x20 <= 'f' {
			hex++
		}
	}
	switch {
	case digits == 0:
		return w
	case strings.Contains(w, "-") && isUUID(w):
		return "<uuid>"
	case len(w) > 2 && w[0] == '0' && w[1]|0x20 == 'x' && hex == len(w)-1, hex == len(w) && len(w) >= 8 && digits < len(w):
		return "<hex>"
	case len(w) >= minID && digits < len(w) && !strings.ContainsAny(w, ".-"):
		return "<id>"
	}
	var out strings.Builder
	for i := 0; i < len(w); {
		if !isDigit(w[i]) {
			out.WriteByte(w[i])
			i++
			continue
		}
		for i < len(w) && (isDigit(w[i]) || (w[i] == '.' || w[i] == '-') && i+1 < len(w) && isDigit(w[i+1])) {
			i++
		}
		out.WriteString("<n>")
	}
	return out.String()
}

const uuidLen = 36

func isUUID(s string) bool {
	if len(s) != uuidLen {
		return false
	}
	for i := range len(s) {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		if dash != (s[i] == '-') || !dash && !isDigit(s[i]) && (s[i]|0x20 < 'a' || s[i]|0x20 > 'f') {
			return false
		}
	}
	return true
}

func digitsOnly(s string) bool { return strings.Trim(s, "0123456789") == "" }
func isDigit(c byte) bool      { return c >= '0' && c <= '9' }
func isLetter(c byte) bool     { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isWord(c byte) bool       { return isDigit(c) || isLetter(c) || c == '_' || c >= 0x80 }
