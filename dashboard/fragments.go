package dashboard

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

const (
	fragmentKept = 2 * time.Second
	maxFragments = 300
)

// fragments keeps pages that open browsers read again, for a short time: many that show the
// same to callers with the same rights are read from the database once.
type fragments struct {
	mu    sync.Mutex
	pages map[string]*fragment
}

type fragment struct {
	mu    sync.Mutex // held while it is rendered
	began time.Time  // when its data began to be read
	html  []byte
}

// of returns the fragment of a page, which may be empty.
func (f *fragments) of(name string) *fragment {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p := f.pages[name]; p != nil {
		return p
	}
	if len(f.pages) >= maxFragments || f.pages == nil {
		f.pages = map[string]*fragment{}
	}
	p := &fragment{}
	f.pages[name] = p
	return p
}

// fragmentName names what a caller sees at an address: all that a page depends on.
func fragmentName(v *request) string {
	key := ""
	var may []string
	if k := v.pass.Key; k != nil {
		key = k.Namespace
	}
	for _, role := range pawl.KeyRoles {
		for _, global := range []bool{false, true} { // a role may be one of all namespaces, or of this one alone
			if v.pass.May(role, global) == nil {
				may = append(may, fmt.Sprint(role, global))
			}
		}
	}
	return fmt.Sprintf("%q %q %q %q %v %q", pawl.CallerOf(v.Context()).Namespace, v.URL.RequestURI(), may, key, v.pass.Payloads(), v.Host)
}

// readAgain answers a page that reads itself again, with its content alone. What is kept is
// used if it was read after the last hint, and the page does not ask for what is fresh. A page
// that cannot be shown is not kept: the browser loads it as a whole then.
func (d *server) readAgain(w http.ResponseWriter, v *request, page string, read func(*request) (any, error)) {
	p := d.kept.of(fragmentName(v))
	p.mu.Lock()
	defer p.mu.Unlock()
	fresh := v.Header.Get(automaticHeader) == "fresh"
	if began := clock.Now(); fresh || p.html == nil || began.Sub(p.began) >= fragmentKept || p.began.Before(d.hints.last()) {
		p.html, p.began = nil, began
		data, err := visible(v, read)
		if _, elsewhere := data.(redirect); err == nil && elsewhere {
			err = pawl.ErrNotFound
		}
		if err == nil {
			p.html, err = d.html(v, "content", page, data)
		}
		d.hints.spend(clock.Now().Sub(began))
		if err != nil {
			d.showError(w, v.Request, err)
			return
		}
	}
	sendHTML(w, http.StatusOK, p.html)
}
