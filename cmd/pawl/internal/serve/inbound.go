package serve

import (
	"errors"
	"maps"
	"slices"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/inbound"
	"github.com/pawl-work/pawl/server"
)

// sources returns the configured sources of webhooks.
func sources(a *cli.App) (map[string]*inbound.Source, error) {
	out := map[string]*inbound.Source{}
	for _, name := range slices.Sorted(maps.Keys(a.Config.Serve.Inbound)) {
		if err := server.CheckInboundName(name); err != nil {
			return nil, err
		}
		o, err := a.Config.Serve.Inbound[name].Options(a.Getenv)
		if err == nil {
			out[name], err = inbound.New(o)
		}
		if err != nil {
			return nil, at("/serve/inbound/"+name, err)
		}
	}
	return out, nil
}

// at puts a path before the pointers of a refusal.
func at(path string, err error) error {
	var e *pawl.Error
	if !errors.As(err, &e) {
		return err
	}
	moved := *e
	moved.Fields = slices.Clone(e.Fields)
	for i := range moved.Fields {
		moved.Fields[i].Pointer = path + moved.Fields[i].Pointer
	}
	return &moved
}
