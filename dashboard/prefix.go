package dashboard

import (
	"net/http"
	"strings"
)

// underPrefix serves pages whose handler knows them without the prefix.
func underPrefix(prefix string, pages http.Handler) http.Handler {
	if prefix == "" {
		return pages
	}
	return http.StripPrefix(prefix, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pages.ServeHTTP(&prefixed{ResponseWriter: w, prefix: prefix}, r)
	}))
}

// prefixed adds the prefix to the addresses in the headers of an answer. The templates add it to links.
type prefixed struct {
	http.ResponseWriter
	prefix string
	sent   bool
}

func (w *prefixed) WriteHeader(code int) {
	w.sent = true
	h := w.Header()
	if to := h.Get("Location"); strings.HasPrefix(to, "/ui/") {
		h.Set("Location", w.prefix+to)
	}
	for i, c := range h["Set-Cookie"] {
		h["Set-Cookie"][i] = strings.Replace(c, "; Path=/ui/", "; Path="+w.prefix+"/ui/", 1)
	}
	w.ResponseWriter.WriteHeader(code)
}

func (w *prefixed) Write(b []byte) (int, error) {
	if !w.sent {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *prefixed) Unwrap() http.ResponseWriter { return w.ResponseWriter }
