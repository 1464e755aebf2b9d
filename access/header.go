package access

import (
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/pawl-work/pawl"
)

// Header returns the percent-encoded text of a header that says for whom a call is made; "" = it is not there.
func Header(h http.Header, name string) (string, error) {
	text, err := url.PathUnescape(h.Get(name))
	if err != nil || !utf8.ValidString(text) || strings.ContainsRune(text, 0) || len(text) > pawl.MaxIDLen {
		return "", &pawl.Error{Code: pawl.CodeInvalid, Message: name + " is to be percent-encoded text of at most 255 bytes"}
	}
	return text, nil
}
