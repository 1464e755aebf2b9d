package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
)

// none removes a limit.
const none = "none"

// limitFlags are the flags of `pawl queue set`. An empty one changes nothing.
type limitFlags struct {
	concurrency, perWorker, rate              string
	key, keyConcurrency, keyRate, order, fair string
	weights                                   map[string]string
}

func queueSet(a *cli.App) *cobra.Command {
	var f limitFlags
	cmd := a.Verb("set TYPE", "Set limits of a queue; what is not named stays, and none removes it", cobra.ExactArgs(1),
		cli.With(a, func(ctx context.Context, s keeper, args []string) error {
			patch, err := f.patch()
			if err != nil {
				return err
			}
			q, err := s.SetQueue(ctx, args[0], patch)
			if err != nil {
				return err
			}
			return showChanged(ctx, a, s, q)
		}))
	flags := cmd.Flags()
	flags.StringVar(&f.concurrency, "concurrency", "", "items leased at once")
	flags.StringVar(&f.perWorker, "per-worker", "", "items leased at once by each worker")
	flags.StringVar(&f.rate, "rate", "", "starts in a time, and starts at once after a pause: 100/1m or 100/1m,20")
	flags.StringVar(&f.key, "key", "", "JSON Pointer to the key of an item, for example /tenant; none removes all limits of keys")
	flags.StringVar(&f.keyConcurrency, "key-concurrency", "", "items leased at once of each key")
	flags.StringVar(&f.keyRate, "key-rate", "", "starts of each key, written as --rate")
	flags.StringToStringVar(&f.weights, "weight", nil, "items that a key has in its turn: KEY=N, and more")
	flags.StringVar(&f.order, "order", "", "created: the items of a key one at a time, in the order of their creation")
	flags.StringVar(&f.fair, "fair", "", "true: keys take turns; false: by priority and age over all keys")
	return cmd
}

// patch returns the JSON Merge Patch that the flags ask for.
func (f *limitFlags) patch() (pawl.QueuePatch, error) {
	patch, key := map[string]any{}, map[string]any{}
	err := f.numbers(patch, key)
	for name, v := range map[string]string{"pointer": f.key, "order": f.order} {
		if v != "" {
			key[name] = orNull(v)
		}
	}
	if f.fair != "" && err == nil {
		key["fair"], err = parsed(f.fair, "fair", func(s string) (any, error) { return strconv.ParseBool(s) })
	}
	weights := map[string]any{}
	for k, v := range f.weights {
		if err == nil {
			weights[k], err = parsed(v, "weight", integer)
		}
	}
	if len(weights) > 0 {
		key["weights"] = weights
	}
	if len(key) > 0 {
		patch["per_key"] = key
	}
	if f.key == none {
		patch["per_key"] = nil
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(patch)
}

func (f *limitFlags) numbers(patch, key map[string]any) (err error) {
	for _, x := range []struct {
		to         map[string]any
		name, flag string
		given      string
		parse      func(string) (any, error)
	}{
		{patch, "concurrency", "concurrency", f.concurrency, integer},
		{patch, "per_worker", "per-worker", f.perWorker, integer},
		{patch, "rate", "rate", f.rate, rate},
		{key, "concurrency", "key-concurrency", f.keyConcurrency, integer},
		{key, "rate", "key-rate", f.keyRate, rate},
	} {
		if x.given != "" && err == nil {
			x.to[x.name], err = parsed(x.given, x.flag, x.parse)
		}
	}
	return err
}

func orNull(s string) any {
	if s == none {
		return nil
	}
	return s
}

// parsed reads the value of a flag, or null for none.
func parsed(s, flag string, parse func(string) (any, error)) (any, error) {
	if s == none {
		return nil, nil
	}
	v, err := parse(s)
	if err != nil {
		return nil, pawl.Invalid("/"+flag, "%s: %v", s, err)
	}
	return v, nil
}

func integer(s string) (any, error) { return strconv.Atoi(s) }

// rate reads LIMIT/TIME or LIMIT/TIME,BURST.
func rate(s string) (any, error) {
	s, burst, hasBurst := strings.Cut(s, ",")
	limit, in, found := strings.Cut(s, "/")
	d, err := cli.Duration(in)
	if !found || err != nil || d < time.Second || d%time.Second != 0 {
		return nil, fmt.Errorf("write a number, / and a time of whole seconds, for example 100/1m")
	}
	out := map[string]any{"seconds": int(d / time.Second), "burst": nil}
	numbers := map[string]string{"limit": limit}
	if hasBurst {
		numbers["burst"] = burst
	}
	for name, text := range maps.All(numbers) {
		if out[name], err = strconv.Atoi(text); err != nil {
			return nil, err
		}
	}
	return out, nil
}
