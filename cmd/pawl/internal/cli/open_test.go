package cli

import "testing"

func TestNamedDatabaseKeepsItsSecret(t *testing.T) {
	for _, c := range [][3]string{
		{"sqlite:a b.db", "", "sqlite:a b.db"},
		{"sqlite:demo.db", "s", "sqlite:demo.db"},
		{"postgres://u:secret@h/d?sslmode=disable", "", "postgres://u:xxxxx@h/d?sslmode=disable"},
		{"postgres://u@h/d?sslmode=disable", "mine", "postgres://u@h/d?schema=mine&sslmode=disable"},
		{"postgres://h/d?user=u&password=secret", "", "postgres://h/d?password=xxxxx&user=u"},
		{"postgres://h/d?sslpassword=secret", "", "postgres://h/d?sslpassword=xxxxx"},
		{"postgres://h/d?listen_url=postgres%3A%2F%2Fu%3Asecret%40h%2Fd", "", "postgres://h/d?listen_url=postgres%3A%2F%2Fu%3Axxxxx%40h%2Fd"},
		{"postgres://u:secret@h:port/d", "", "a URL that cannot be read"},
	} {
		if got := ShownURL(c[0], c[1]); got != c[2] {
			t.Errorf("%s: %s, want %s", c[0], got, c[2])
		}
	}
}
