package suite

import "github.com/pawl-work/pawl"

var relays = noun{"relays", []promise{
	{"without relays the list is empty", func(w *fixture) {
		w.oneItem()
		list, err := w.svc.ListRelays(w.ctx)
		w.ok(err, "list relays")
		w.same(list, pawl.List[pawl.Relay]{Items: []pawl.Relay{}}, "relays")
	}},
	{"an unknown relay cannot be resumed or forgotten", func(w *fixture) {
		_, err := w.svc.ResumeRelay(w.ctx, "nowhere", pawl.RelayFromNow)
		w.refused(err, pawl.CodeNotFound)
		w.refused(w.svc.ForgetRelay(w.ctx, "nowhere"), pawl.CodeNotFound)
	}},
}}
