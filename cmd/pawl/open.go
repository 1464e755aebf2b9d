package main

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/client"
	"github.com/pawl-work/pawl/engine"
)

// open opens what the settings name: a server, or a database in this process.
func (a *app) open(ctx context.Context) (pawl.Service, func(), error) {
	if a.cfg.Server != "" {
		return client.New(a.cfg.Server, a.cfg.Key), func() {}, nil
	}
	eng, err := engine.OpenWith(ctx, a.cfg.DB, a.engineOptions())
	if err != nil {
		return nil, nil, err
	}
	return eng, func() { _ = eng.Close() }, nil
}

func (a *app) engineOptions() engine.Options {
	return engine.Options{Schema: a.cfg.Schema, Migrate: a.cfg.Migrate, Sweep: a.cfg.Sweep.options(), Log: a.log()}
}
