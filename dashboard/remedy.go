package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/internal/shellwords"
)

// remedy is a button that does what a command of pawl.Why does: a link to the page that asks whether it is meant, or a form.
type remedy struct {
	Label, Role string
	Link        string   // of a link: the page, without the prefix
	Post        string   // of a form: where it is sent, without the prefix
	Verb        string   // for its colour
	Fields      []member // of the form
}

// member is a field of a form. Without a label it is hidden.
type member struct {
	Name, Label, Value string
	Number             bool
}

// remedyOf is the button for a command, if the caller may do what it does; nil = it is done elsewhere, such as starting
// a worker. What no page can do as the command says has none.
func remedyOf(pass access.Pass, line string) *remedy {
	words := shellwords.Split(line)
	if len(words) < 3 {
		return nil
	}
	flags, args := flagsIn(words[3:])
	id, verb := "", strings.Join(words[1:3], " ")
	if len(args) > 0 {
		id = args[0]
	}
	button := remedies[verb]
	if button == nil {
		return nil
	}
	r := button(id, flags)
	if r == nil || pass.May(r.Role, false) != nil {
		return nil
	}
	return r
}

// asks returns a maker of links to the page that asks about a verb on a task, or on its item that --item names.
func asks(verb, role, label string) func(string, map[string]string) *remedy {
	return func(id string, flags map[string]string) *remedy {
		r := &remedy{Label: label, Role: role, Verb: verb, Link: "/ui/tasks/" + escape(id) + "/" + verb}
		if item := flags["item"]; item != "" {
			r.Link = "/ui/items/" + escape(item) + "/" + verb
		}
		return r
	}
}

// remedies make buttons, by the verb of the command.
var remedies = map[string]func(id string, flags map[string]string) *remedy{
	"task approve": asks("approve", "approver", "Approve…"),
	"task reject":  asks("reject", "approver", "Reject…"),
	"task retry":   asks("retry", "operator", "Retry…"),
	"task cancel":  asks("cancel", "submitter", "Cancel…"),
	"effect get": func(id string, _ map[string]string) *remedy {
		return &remedy{Label: "Decide…", Role: "approver", Verb: "approve", Link: "/ui/effects/" + escape(id)}
	},
	"item revoke-lease": func(id string, _ map[string]string) *remedy {
		return &remedy{Label: "Revoke the lease…", Role: "operator", Verb: "revoke", Link: "/ui/items/" + escape(id) + "/revoke_lease"}
	},
	"queue resume": func(id string, flags map[string]string) *remedy {
		if _, all := flags["all"]; all {
			return &remedy{Label: "Resume the namespace", Role: "operator", Post: "/ui/namespace/resume"}
		}
		return &remedy{Label: "Resume the queue", Role: "operator", Post: "/ui/queues/" + escape(id) + "/resume"}
	},
	"queue set": func(id string, flags map[string]string) *remedy {
		for _, name := range []string{"concurrency", "key-concurrency"} {
			if n := flags[name]; n != "" {
				return &remedy{Label: "Raise the limit", Role: "operator", Post: "/ui/queues/" + escape(id) + "/raise",
					Fields: []member{{name, "leased at once", n, true}}}
			}
		}
		return nil
	},
	"budget set": func(id string, flags map[string]string) *remedy {
		return &remedy{Label: "Raise the budget", Role: "operator", Post: "/ui/budgets/" + escape(id) + "/raise",
			Fields: []member{{"limit", "new limit", flags["limit"], true}}}
	},
	"signal send": func(id string, flags map[string]string) *remedy {
		return &remedy{Label: "Send the signal", Role: "submitter", Post: "/ui/signals/" + escape(id) + "/send",
			Fields: []member{{"key", "", flags["signal-key"], false}, {"payload", "its payload, as JSON", "null", false}}}
	},
}

// flagsIn separates the flags of a command from its arguments. A flag without a value is of a command that has no arguments.
func flagsIn(words []string) (flags map[string]string, args []string) {
	flags = map[string]string{}
	for i := 0; i < len(words); i++ {
		switch name, is := strings.CutPrefix(words[i], "--"); {
		case words[i] == "--":
			return flags, append(args, words[i+1:]...)
		case is && i+1 < len(words):
			i++
			flags[name] = words[i]
		case is:
			flags[name] = ""
		default:
			args = append(args, words[i])
		}
	}
	return flags, args
}

// raiseLimit sets the one limit of a queue that its form has; the others stay.
func raiseLimit(ctx context.Context, d *server, typ string, form url.Values) error {
	name, patch := "concurrency", `{"concurrency":%d}`
	if form.Has("key-concurrency") {
		name, patch = "key-concurrency", `{"per_key":{"concurrency":%d}}`
	}
	n, err := strconv.Atoi(strings.TrimSpace(form.Get(name)))
	if err != nil {
		return pawl.Invalid("/"+name, "is not a number")
	}
	_, err = d.svc.SetQueue(ctx, typ, pawl.QueuePatch(fmt.Sprintf(patch, n)))
	return err
}

// raiseBudget sets the limit of a budget, and leaves all else that is said about it.
func raiseBudget(ctx context.Context, d *server, name string, form url.Values) error {
	limit, err := strconv.ParseInt(strings.TrimSpace(form.Get("limit")), 10, 64)
	if err != nil {
		return pawl.Invalid("/limit", "is not a number")
	}
	b, err := d.svc.GetBudget(ctx, name)
	if err != nil {
		return err
	}
	b.Limit = limit
	_, err = d.svc.PutBudget(ctx, name, b.NewBudget)
	return err
}

// sendSignal sends a signal with the key and payload of its form.
func sendSignal(ctx context.Context, d *server, name string, form url.Values) error {
	c := pawl.SignalCall{Name: name, Key: form.Get("key")}
	if text := strings.TrimSpace(form.Get("payload")); text != "" {
		if !json.Valid([]byte(text)) {
			return pawl.Invalid("/payload", "is not JSON; a text is in quotation marks")
		}
		c.Payload = json.RawMessage(text)
	}
	rs, err := d.svc.SendSignals(ctx, []pawl.SignalCall{c})
	if err == nil {
		err = rs[0].Err
	}
	return err
}

// resumeNamespace allows claims in the namespace again.
func resumeNamespace(ctx context.Context, d *server, _ string, _ url.Values) error {
	return d.svc.ResumeNamespace(ctx)
}

// button is a remedy on the page with the address Here, to which its form leads back.
type button struct {
	*remedy
	Here string
}

func remedyButton(pass access.Pass, command, here string) *button {
	if r := remedyOf(pass, command); r != nil {
		return &button{r, here}
	}
	return nil
}

// explanation is why something does not go on, with the button for its command.
type explanation struct {
	*pawl.Why
	Button *button
}

func explained(why *pawl.Why, pass access.Pass, here string) *explanation {
	return &explanation{why, remedyButton(pass, why.Command, here)}
}
