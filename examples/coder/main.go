// Command coder is a coding agent that uses Pawl over MCP only. It hands in its changes
// file by file; nothing in the folder changes before a person has approved all of them.
//
//	go run ./examples/coder -db sqlite:pawl.db
//
// A script takes the place of the model: see write.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const typ = "code.comment" // see type.yaml

var worker = fmt.Sprintf("coder-%d", os.Getpid())

func main() {
	db := flag.String("db", "sqlite:pawl.db", "the database; the same as that of pawl")
	flag.Parse()
	ctx, server := context.Background(), &mcp.CommandTransport{Command: exec.Command("pawl", "mcp", "--db", *db, "--log", "warn")}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "coder", Version: "1"}, nil).Connect(ctx, server, nil)
	if err == nil {
		err = errors.Join(agent{session}.run(ctx), session.Close())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type agent struct{ *mcp.ClientSession }

// lease is an item that this agent works on.
type lease struct {
	ID, Type string
	Attempt  int
	Input    struct {
		Folder string
		TaskID string `json:"task_id"`
	}
}

// args are the arguments of a call about the item, and more.
func (l lease) args(more map[string]any) map[string]any {
	more["item_id"], more["worker_id"], more["attempt"] = l.ID, worker, l.Attempt
	return more
}

// run works on what there is, and ends when there is nothing to do for a while.
func (a agent) run(ctx context.Context) error {
	for {
		var found struct{ Items []lease }
		if err := a.call(ctx, "work_checkout", map[string]any{
			"worker_id": worker, "types": []string{typ, typ + ".apply"}, "wait_seconds": 5,
		}, &found); err != nil || len(found.Items) == 0 {
			return err
		}
		work := a.change
		if found.Items[0].Type == typ+".apply" {
			work = a.apply
		}
		if err := work(ctx, found.Items[0]); err != nil {
			return err
		}
	}
}

// file is a part of the result.
type file struct{ Path, Text string }

// change hands in each changed file. Files that an earlier attempt handed in are done; a file keeps its number.
func (a agent) change(ctx context.Context, l lease) error {
	there, next, err := a.parts(ctx, l)
	if err != nil {
		return err
	}
	paths, err := filepath.Glob(filepath.Join(l.Input.Folder, "*.go"))
	for _, path := range paths {
		text, failed := os.ReadFile(path)
		seq, changed := there[path].seq, write(string(text))
		if err = failed; changed != string(text) && there[path].text != changed {
			if _, found := there[path]; !found {
				seq, next = next, next+1
			}
			fmt.Println("handing in", path)
			err = a.call(ctx, "work_submit_part", l.args(map[string]any{"key": "file", "seq": seq, "payload": file{path, changed}}), &struct{}{})
		}
		if err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	return a.call(ctx, "work_finalize", l.args(map[string]any{}), &struct{}{})
}

// part is a file that was handed in.
type part struct {
	seq  int
	text string
}

// parts returns the files that were handed in, by their paths, and the next free number.
func (a agent) parts(ctx context.Context, l lease) (there map[string]part, next int, err error) {
	there = map[string]part{}
	in := map[string]any{"item_id": l.ID, "key": "file", "limit": 100}
	for {
		var page struct {
			Items []struct {
				Seq     int
				Payload json.RawMessage
			}
			Next string
		}
		if err := a.call(ctx, "work_list_parts", in, &page); err != nil {
			return nil, 0, err
		}
		for _, p := range page.Items {
			var f file
			if err := a.value(ctx, p.Payload, &f); err != nil {
				return nil, 0, err
			}
			there[f.Path], next = part{p.Seq, f.Text}, max(next, p.Seq+1)
		}
		if in["cursor"] = page.Next; page.Next == "" {
			return there, next, nil
		}
	}
}

var exported = regexp.MustCompile(`(?m)^(//.*\n)?func [A-Z]\w*`)

// write is the model's work: a comment for each exported function that has none.
func write(text string) string {
	return exported.ReplaceAllStringFunc(text, func(found string) string {
		if name, bare := strings.CutPrefix(found, "func "); bare {
			found = "// " + name + " has no description yet.\n" + found
		}
		return found
	})
}

// apply writes the approved files. It may run twice; the result is the same.
func (a agent) apply(ctx context.Context, l lease) error {
	var task struct {
		Items []struct {
			Result json.RawMessage `json:"assembled_result"`
		}
	}
	err := a.call(ctx, "work_get", map[string]any{"task_id": l.Input.TaskID}, &task)
	var files []file
	for _, it := range task.Items {
		var approved struct{ File []file }
		if it.Result != nil {
			err = errors.Join(err, a.value(ctx, it.Result, &approved))
		}
		files = append(files, approved.File...)
	}
	if err == nil && len(files) == 0 {
		err = errors.New("no approved file")
	}
	for _, f := range files {
		fmt.Println("writing", f.Path)
		err = errors.Join(err, os.WriteFile(f.Path, []byte(f.Text), 0o644))
	}
	if err != nil {
		return err
	}
	return a.call(ctx, "work_complete", l.args(map[string]any{"result": struct{}{}}), &struct{}{})
}

// value decodes a value of an answer. A large value is cut: $cut says how to read it, piece by piece.
func (a agent) value(ctx context.Context, raw json.RawMessage, out any) error {
	var cut struct {
		Of *struct{ Read map[string]any } `json:"$cut"`
	}
	if err := json.Unmarshal(raw, &cut); err != nil || cut.Of == nil {
		return errors.Join(err, json.Unmarshal(raw, out))
	}
	text := ""
	for {
		var piece struct {
			Text string
			Next int
		}
		if err := a.call(ctx, "work_read", cut.Of.Read, &piece); err != nil {
			return err
		}
		if text += piece.Text; piece.Next == 0 {
			return json.Unmarshal([]byte(text), out)
		}
		cut.Of.Read["offset"] = piece.Next
	}
}

// call calls a tool. A refusal is an error with the tool's own words.
func (a agent) call(ctx context.Context, tool string, args, out any) error {
	res, err := a.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return err
	}
	text := res.Content[0].(*mcp.TextContent).Text
	if res.IsError {
		return errors.New(tool + ": " + text)
	}
	return json.Unmarshal([]byte(text), out)
}
