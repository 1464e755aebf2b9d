package task

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/checkpoint"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
)

// newItems are the flags that describe items.
type newItems struct {
	inputs []string
	file   string
}

func (n *newItems) flags(f *pflag.FlagSet) {
	f.StringArrayVar(&n.inputs, "item", nil, "the input of one item, as JSON; may be repeated")
	f.StringVar(&n.file, "items", "", `file (or -) with items: {"input":…, "key":…, "after":[…], …}, as a JSON list or one per line`)
}

func (n newItems) read(a *cli.App) ([]pawl.NewItem, error) {
	var out []pawl.NewItem
	if n.file != "" {
		var err error
		if out, err = cli.ReadList[pawl.NewItem](a, n.file); err != nil {
			return nil, err
		}
	}
	for _, text := range n.inputs {
		input, err := a.JsonArg("item", text)
		if err != nil {
			return nil, err
		}
		out = append(out, pawl.NewItem{Input: input})
	}
	return out, nil
}

// newTask are the flags of task create.
type newTask struct {
	pawl.NewTask
	newItems
	payload, metadata, runAt, by string
	deadline                     string
	startToClose, scheduleTo     time.Duration
	dedupe                       bool
	dedupeOn                     []string
	file                         string
	alone                        keyed
}

// keyed are the flags of unique and debounced tasks.
type keyed struct {
	key, onConflict, debounce string
	byInput                   bool
	window, wait, most        time.Duration
}

func (k *keyed) flags(f *pflag.FlagSet) {
	f.StringVar(&k.key, "unique-key", "", "not while another task of the type has this key")
	f.BoolVar(&k.byInput, "unique-input", false, "not while another task of the type has this payload and items")
	f.DurationVar(&k.window, "unique-window", 0, "with --unique-…: at least for this long after the older task's creation (10m)")
	f.StringVar(&k.onConflict, "on-conflict", "", "with --unique-…: reject (default), return the older task, or replace its payload")
	f.StringVar(&k.debounce, "debounce", "", "a key: a later create with it, before this task is due, delays it and replaces its payload")
	f.DurationVar(&k.wait, "debounce-for", 0, "the delay (30s)")
	f.DurationVar(&k.most, "debounce-max", 0, "the longest delay since the first create (default 10 times --debounce-for)")
}

// set puts into a task what the flags say.
func (k *keyed) set(t *pawl.NewTask) error {
	if k.key != "" && k.byInput {
		return cli.Invalid("give --unique-key or --unique-input, not both")
	}
	switch {
	case k.key != "":
		t.Unique = &pawl.Unique{By: pawl.UniqueByKey, Key: k.key}
	case k.byInput:
		t.Unique = &pawl.Unique{By: pawl.UniqueByInput}
	case k.window != 0 || k.onConflict != "":
		return cli.Invalid("--unique-window and --on-conflict need --unique-key or --unique-input")
	}
	if t.Unique != nil {
		t.Unique.WindowSeconds, t.Unique.OnConflict = cli.Seconds(k.window), k.onConflict
	}
	if k.debounce != "" {
		t.Debounce = &pawl.Debounce{Key: k.debounce, Seconds: cli.Seconds(k.wait), MaxSeconds: cli.Seconds(k.most)}
	} else if k.wait != 0 || k.most != 0 {
		return cli.Invalid("--debounce-for and --debounce-max need --debounce")
	}
	return nil
}

func (n *newTask) read(a *cli.App, cmd *cobra.Command) (_ []pawl.NewTask, err error) {
	if n.file != "" {
		if err := cli.Alone(cmd, "file", "dry-run"); err != nil {
			return nil, err
		}
		return cli.ReadList[pawl.NewTask](a, n.file)
	}
	if n.Type == "" {
		return nil, cli.Invalid("a task needs a --type")
	}
	t := n.NewTask
	if t.Payload, err = a.JsonArg("payload", n.payload); err != nil {
		return nil, err
	}
	if t.Metadata, err = a.JsonArg("metadata", n.metadata); err != nil {
		return nil, err
	}
	if t.RunAt, err = cli.FutureTime("run-at", n.runAt); err != nil {
		return nil, err
	}
	if t.Deadline, err = cli.FutureTime("deadline", n.deadline); err != nil {
		return nil, err
	}
	t.StartToCloseSeconds, t.ScheduleToStartSeconds = cli.Seconds(n.startToClose), cli.Seconds(n.scheduleTo)
	if t.Items, err = n.newItems.read(a); err != nil {
		return nil, err
	}
	if n.by != "" {
		if t.RequestedBy, err = requester(n.by); err != nil {
			return nil, err
		}
	}
	t.Dedupe = pawl.Dedupe{All: n.dedupe, Pointers: n.dedupeOn}
	return []pawl.NewTask{t}, n.alone.set(&t)
}

// requester reads --requested-by: an actor, or TYPE:ID with a type of the caller's own.
func requester(text string) (*pawl.Requester, error) {
	if kind, id, found := strings.Cut(text, ":"); found {
		return &pawl.Requester{Type: kind, ID: id}, nil
	}
	kind, id, err := pawl.ParseActor(text)
	if err != nil {
		return nil, cli.Invalid("--requested-by is NAME, TYPE/NAME or TYPE:NAME; a name has no slash, and TYPE/ is one of %s",
			strings.Join(pawl.ActorTypes, ", "))
	}
	return &pawl.Requester{Type: cmp.Or(kind, pawl.ActorUser), ID: id}, nil
}

func taskCreate(a *cli.App) *cobra.Command {
	var n newTask
	var cmd *cobra.Command
	cmd = a.Verb(
		"create --type TYPE [--payload JSON]",
		"Create a task, or many from a file",
		cobra.NoArgs,
		cli.WithCreate(a, func(ctx context.Context, s pawl.TaskMaker, _ []string) error {
			tasks, err := n.read(a, cmd)
			if err != nil {
				return err
			}
			for i := range tasks {
				tasks[i].DryRun = tasks[i].DryRun || n.DryRun
			}
			rs, err := s.CreateTasks(ctx, tasks)
			return cli.ShowEach(a, rs, err, showTasks)
		}),
	)
	cmd.Example = `  pawl task create --type email.send --payload '{"to":"a@example.org"}'
  pawl task create --type pdf.parse --item '"a.pdf"' --item '"b.pdf"' --priority 5
  pawl task create --file tasks.jsonl`
	f := cmd.Flags()
	f.StringVarP(&n.Type, "type", "t", "", "its type")
	f.StringVar(&n.payload, "payload", "", "JSON, @FILE or - for stdin")
	f.StringVar(&n.Title, "title", "", "title, for people")
	f.IntVar(&n.Priority, "priority", 0, "−32768…32767, higher first")
	n.newItems.flags(f)
	f.IntVar(&n.MaxAttempts, "max-attempts", 0, "attempts before an item fails (default 3)")
	f.StringVar(&n.runAt, "run-at", "", "earliest start: a time, or a duration from now (10m)")
	f.StringVar(&n.deadline, "deadline", "", "what has no result by then fails: a time, or a duration from now (2h)")
	f.DurationVar(&n.startToClose, "start-to-close", 0, "longest time of an attempt, in whole seconds (10m); 0 = no limit")
	f.DurationVar(&n.scheduleTo, "schedule-to-start", 0, "longest time in the queue, in whole seconds (10m); 0 = no limit")
	f.BoolVar(&n.dedupe, "dedupe", false, "return the existing task with this payload and items, if there is one")
	f.StringSliceVar(&n.dedupeOn, "dedupe-on", nil, "like --dedupe, by the values at these JSON Pointers into the payload")
	f.StringVar(&n.ParentID, "parent", "", "make it a child of this task")
	f.StringVar(&n.InputHash, "input-hash", "", "like --dedupe, by a hash that you compute")
	n.alone.flags(f)
	f.BoolVar(&n.DryRun, "dry-run", false, "show the items that would be created, and create nothing")
	f.StringVar(&n.by, "requested-by", "", "the requester: NAME, TYPE/NAME or TYPE:NAME")
	f.StringVar(&n.metadata, "metadata", "", "a JSON object, @FILE or -")
	f.StringVar(&n.file, "file", "", "file (or -) with whole tasks as JSON, a list or one per line")
	return cmd
}

func taskAddItems(a *cli.App) *cobra.Command {
	var n newItems
	cmd := a.Verb(
		"add-items TASK",
		"Add items to a task that is still open",
		cobra.ExactArgs(1),
		cli.With(a, func(ctx context.Context, s pawl.TaskMaker, args []string) error {
			items, err := n.read(a)
			if err != nil {
				return err
			}
			rs, err := s.AddItems(ctx, []pawl.AddItems{{TaskID: args[0], Items: items}})
			return cli.ShowEach(a, rs, err, showTasks)
		}),
	)
	n.flags(cmd.Flags())
	return cmd
}

func taskCheckpoint(a *cli.App) *cobra.Command {
	var n checkpoint.NewCheckpoint
	cmd := a.Verb(
		"checkpoint TASK",
		"Save a checkpoint of the task itself",
		cobra.ExactArgs(1),
		cli.With(a, func(ctx context.Context, s pawl.TaskMaker, args []string) error {
			c, err := n.Read(a)
			if err != nil {
				return err
			}
			rs, err := s.CheckpointTasks(ctx, []pawl.TaskCheckpoint{{TaskID: args[0], NewCheckpoint: c}})
			return cli.ShowEach(a, rs, err, checkpoint.ShowRefs)
		}),
	)
	n.Flags(cmd.Flags())
	return cmd
}
