package server

import (
	"net/http"
	"reflect"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/go-chi/chi/v5"

	"github.com/pawl-work/pawl/api"
)

// book describes all operations. It is the same for all servers of a process: to make it takes most of the time in which a
// server is made.
type book struct {
	api     huma.API          // without routes: each server has its own
	shapes  map[string]*shape // by the name of the route
	ids     map[string]*ids
	rests   map[string]*rest
	batches map[string]bool // the routes whose bodies are batches
}

// theBook is made by a server without a router, whose operations are only described.
var theBook = sync.OnceValue(func() *book {
	settleHuma()
	b := &book{api: humachi.New(chi.NewRouter(), config()), shapes: map[string]*shape{}, ids: map[string]*ids{},
		rests: map[string]*rest{}, batches: map[string]bool{}}
	(&server{book: b, metrics: new(metrics)}).operations()
	return b
})

// amend changes the description after the operations that it is called behind.
func (s *server) amend(how func(*huma.OpenAPI)) {
	if s.mux == nil {
		how(s.api.OpenAPI())
	}
}

// add describes the operation of a route.
func (b *book) add(r api.Route, in, out reflect.Type) {
	o := b.api.OpenAPI()
	of := &shape{Operation: described(r), route: r, changes: r.Method != http.MethodGet, late: r.Has(api.AnswersLate),
		in: in, out: out, answers: reflect.VisibleFields(out), schemas: o.Components.Schemas}
	of.describeParams(in, nil)
	of.describeBody()
	of.describeAnswer()
	o.AddOperation(of.Operation)
	b.shapes[r.Name], b.ids[r.Name] = of, idsOf(r, in)
}
