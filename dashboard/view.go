package dashboard

import (
	"net/http"
	"net/url"
	"slices"
	"time"
)

// The cookies of how pages look. They are not secret.
const (
	themeCookie = "pawl_theme" // light, dark; none = the system's
	zoneCookie  = "pawl_zone"  // local; none = UTC
)

// viewKept is how long a browser keeps them.
const viewKept = 365 * 24 * time.Hour

// themeOf is light, dark, or "" for the system's.
func themeOf(r *http.Request) string {
	if theme := cookieValue(r, themeCookie); theme == "light" || theme == "dark" {
		return theme
	}
	return ""
}

// setView sets how pages look, for this browser. Other values than the known ones are ignored.
func setView(w http.ResponseWriter, r *http.Request) {
	set := func(name, value string, allowed ...string) {
		c := &http.Cookie{Name: name, Value: url.QueryEscape(value), Path: "/ui/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
			Secure: secure(r), MaxAge: int(viewKept / time.Second)}
		if !slices.Contains(allowed, value) {
			c.Value, c.MaxAge = "", -1
		}
		http.SetCookie(w, c)
	}
	if theme := r.PostFormValue("theme"); theme != "" {
		set(themeCookie, theme, "light", "dark")
	}
	if zone := r.PostFormValue("zone"); zone != "" {
		set(zoneCookie, zone, "local")
	}
	http.Redirect(w, r, safeNext(r.PostFormValue("next")), http.StatusSeeOther)
}
