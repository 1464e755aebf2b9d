package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/nearest"
)

// FlagError is the error for flags that cannot be read. It suggests the flags that may be meant by one that is not there.
func FlagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				known = append(known, "--"+f.Name)
			}
		})
		err = fmt.Errorf("%w%s", err, nearest.Question("--"+unknown.GetSpecifiedName(), known))
	}
	if number := new(strconv.NumError); errors.As(err, &number) {
		err = errors.New(strings.ReplaceAll(err.Error(), number.Error(), "it takes a number"))
	}
	return Usage(cmd, err)
}

// Named adds to the errors of a noun's verbs about a name that is not there the names that may be meant. names lists those
// that are there; it is called only then.
func Named[R any](a *App, noun *cobra.Command, names func(ctx context.Context, s R) ([]string, error)) *cobra.Command {
	for _, verb := range noun.Commands() {
		run := verb.RunE
		verb.RunE = func(cmd *cobra.Command, args []string) error {
			err := run(cmd, args)
			if missing := missingNames(err, args); len(missing) > 0 {
				_ = With(a, func(ctx context.Context, s R, _ []string) error { // a hint, no more
					known, err := names(ctx, s)
					for e, name := range missing {
						e.Message += nearest.Question(name, known)
					}
					return err
				})(cmd, args)
			}
			return err
		}
	}
	return noun
}

// missingNames returns the errors that say that an argument is not there, with the argument.
func missingNames(err error, args []string) map[*pawl.Error]string {
	var many refusals
	if !errors.As(err, &many) {
		many = refusals{{err: err}}
	}
	out := map[*pawl.Error]string{}
	for _, r := range many {
		var e *pawl.Error
		if !errors.As(r.err, &e) || e.Code != pawl.CodeNotFound {
			continue
		}
		for _, name := range args {
			if strings.HasSuffix(e.Message, " "+name) {
				out[e] = name
			}
		}
	}
	return out
}

// NamesOf returns the names of what a list has.
func NamesOf[T any](l pawl.List[T], err error, name func(T) string) ([]string, error) {
	names := make([]string, len(l.Items))
	for i, x := range l.Items {
		names[i] = name(x)
	}
	return names, err
}

// unknownVerb is the error for a word that is not a subcommand of cmd. It suggests the
// nearest ones and those that begin with the word.
func unknownVerb(cmd *cobra.Command, word string) error {
	best := nearest.Allowed(word)
	var near, begun []string
	for _, c := range cmd.Commands() {
		if !c.IsAvailableCommand() {
			continue
		}
		if d := nearest.Edits(word, c.Name()); d < best {
			best, near = d, []string{c.Name()}
		} else if d == best && d > 0 {
			near = append(near, c.Name())
		}
		if len(word) > 1 && strings.HasPrefix(c.Name(), word) {
			begun = append(begun, c.Name())
		}
	}
	meant := slices.Compact(slices.Sorted(slices.Values(append(near, begun...))))
	text := fmt.Sprintf("there is no command %q here", cmd.CommandPath()+" "+word)
	if len(meant) > 0 {
		text += "; did you mean " + strings.Join(meant, " or ") + "?"
	}
	return Usage(cmd, fmt.Errorf("%s", text))
}
