package server

import (
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/go-chi/chi/v5"

	"github.com/pawl-work/pawl"
)

// tidyURL ensures three things about a URL that the router and huma do not. A verb follows the
// last colon of a path, whatever the id before it contains and whatever the method. A
// parameter that is given several times is a list, not its first value. And all of it is plain
// text.
func (s *server) tidyURL(w http.ResponseWriter, r *http.Request) error {
	if !plainText(r.URL.Path) {
		return &pawl.Error{Code: pawl.CodeNotFound, Message: "the path is not plain text"}
	}
	oneSegment(r.URL)
	path := r.URL.EscapedPath()
	slash, colon := strings.LastIndexByte(path, '/'), strings.LastIndexByte(path, ':')
	if slash >= 0 && colon > slash && strings.Count(path[slash:], ":") > 1 {
		r.URL.RawPath = path[:slash] + strings.ReplaceAll(path[slash:colon], ":", "%3A") + path[colon:]
	}
	if r.URL.RawQuery != "" {
		q, err := oneEach(r.URL.RawQuery)
		if err != nil {
			return err
		}
		r.URL.RawQuery = q
	}
	if r.Method != http.MethodPost && s.verb(r.URL.EscapedPath()) {
		return s.wrongMethod(w, r)
	}
	return nil
}

// oneEach joins the values of each parameter with commas.
func oneEach(raw string) (string, error) {
	q, err := url.ParseQuery(raw)
	if err != nil {
		return "", &pawl.Error{Code: pawl.CodeInvalid, Message: "the query string is malformed", Err: err}
	}
	for name, values := range q {
		value := strings.Join(values, ",")
		if !plainText(name + value) {
			name, _, _ = strings.Cut(name, "[") // metadata[key]
			return "", pawl.Invalid(pointer(strings.ToValidUTF8(name, "\ufffd")), "is not plain text")
		}
		q[name] = []string{value}
	}
	return q.Encode(), nil
}

func plainText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

var methods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// verb reports whether a path ends in one of the API's verbs, which only POST takes. A router
// that knows only ids would read the verb as the end of an id.
func (s *server) verb(path string) bool {
	slash, colon := strings.LastIndexByte(path, '/'), strings.LastIndexByte(path, ':')
	return colon > slash && strings.HasSuffix(s.mux.Find(chi.NewRouteContext(), http.MethodPost, path), path[colon:])
}

// allowed lists the methods that a path takes.
func (s *server) allowed(path string) []string {
	if s.verb(path) {
		return []string{http.MethodPost}
	}
	var out []string
	for _, m := range methods {
		if s.mux.Match(chi.NewRouteContext(), m, path) {
			out = append(out, m)
			if m == http.MethodGet {
				out = append(out, http.MethodHead)
			}
		}
	}
	return out
}

// wrongMethod refuses a method that the path does not take, and lists those that it takes.
func (s *server) wrongMethod(w http.ResponseWriter, r *http.Request) error {
	allow := strings.Join(s.allowed(r.URL.EscapedPath()), ", ")
	w.Header().Set("Allow", allow)
	return &pawl.Error{Code: pawl.CodeMethod, Message: r.Method + " is not possible here; possible: " + allow}
}

func (s *server) methodNotAllowed(w http.ResponseWriter, r *http.Request) {
	s.refuseUnread(w, r, s.wrongMethod(w, r))
}

// notFound answers for a path without a route. If only the verb after the colon is unknown, it
// refuses the verb instead of the path.
func (s *server) notFound(w http.ResponseWriter, r *http.Request) {
	path := r.URL.EscapedPath()
	if colon := strings.LastIndexByte(path, ':'); colon > strings.LastIndexByte(path, '/') {
		if allow := s.allowed(path[:colon]); allow != nil {
			w.Header().Set("Allow", strings.Join(allow, ", "))
			s.refuseUnread(w, r, &pawl.Error{Code: pawl.CodeMethod, Message: "there is no verb " + path[colon+1:] + " here"})
			return
		}
	}
	s.refuseUnread(w, r, &pawl.Error{Code: pawl.CodeNotFound, Message: "no such path; /docs and /openapi.json list them"})
}
