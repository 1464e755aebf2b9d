package serve

import (
	"context"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/internal/push"
)

// pusher returns what calls the workers of the settings; nil = there are none.
func pusher(a *cli.App, s pawl.Service) (*push.Pusher, error) {
	if len(a.Config.Push) == 0 {
		return nil, nil
	}
	targets := map[string]push.Target{}
	for typ, c := range a.Config.Push {
		t, err := c.Target(typ)
		if err != nil {
			return nil, err
		}
		targets[typ] = t
	}
	return push.New(push.Options{Service: s, Targets: targets, Namespace: a.Config.Namespace, Log: a.Log()})
}

// oncePushed calls the workers of the settings once. There is none: it is nil.
func oncePushed(p *push.Pusher) func(context.Context) (int64, time.Time, error) {
	if p == nil {
		return nil
	}
	return p.Once
}
