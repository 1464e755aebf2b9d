package pawl_test

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
)

// vectors reads a file that the tests of every client read.
func vectors[T any](t *testing.T, name string) (out []T) {
	t.Helper()
	data, err := os.ReadFile("testdata/vectors/" + name + ".json")
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil || len(out) == 0 {
		t.Fatalf("%s: %d vectors, %v", name, len(out), err)
	}
	return out
}

func TestVectorsOfArguments(t *testing.T) {
	for _, v := range vectors[struct {
		Name   string
		Args   []json.RawMessage
		Hashes map[string]string
	}](t, "args") {
		i := newItem()
		args := make([]any, len(v.Args))
		for n := range v.Args {
			args[n] = v.Args[n]
		}
		mustT(t, 0, failure(pawl.Step(i.attempt(1), "n", func(context.Context) (int, error) { return 1, nil }, args...)))
		var got struct{ Args map[string]string }
		if m := i.saved[0].Metadata; len(m) > 0 {
			mustT(t, 0, json.Unmarshal(m, &got))
		} else {
			got.Args = map[string]string{}
		}
		if !maps.Equal(got.Args, v.Hashes) {
			t.Errorf("%s:\n%v, want\n%v", v.Name, got.Args, v.Hashes)
		}
	}
}

func TestAStepThatChangedNamesWhatDiffers(t *testing.T) {
	type order struct {
		Items []string `json:"items"`
		Total int      `json:"total"`
	}
	one := func(context.Context) (int, error) { return 1, nil }
	for want, args := range map[string][2][]any{
		"(/0/total)":                         {{order{nil, 1}, 5}, {order{nil, 2}, 5}},
		"(/1)":                               {{"a", 5}, {"a", 6}},
		"(/0, /0/items, /0/total)":           {{order{nil, 1}}, {"text"}},
		"(/0, /1, /2, /3, /4, and 2 more)":   {{1, 2, 3, 4, 5, 6, 7}, {2, 3, 4, 5, 6, 7, 8}},
		"for other arguments; give the step": {{}, {1}},
	} {
		i := newItem()
		mustT(t, 0, failure(pawl.Step(i.attempt(1), "n", one, args[0]...)))
		err := failure(pawl.Step(i.attempt(2), "n", one, args[1]...))
		if err == nil || !strings.Contains(err.Error(), want) || retries(err) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// The checkpoints that a fork was made with have no attempt.
func TestAForkSaysWhoSavedAStep(t *testing.T) {
	one, i := func(context.Context) (int, error) { return 1, nil }, newItem()
	mustT(t, 0, failure(pawl.Step(i.attempt(1), "n", one, "a")))
	i.saved[0].Attempt = 0
	err := failure(pawl.Step(i.attempt(2), "n", one, "b"))
	if err == nil || !strings.Contains(err.Error(), "the task that this task is a fork of saved its result for other arguments (/0)") {
		t.Error(err)
	}
}

func TestVectorsOfContents(t *testing.T) {
	for _, v := range vectors[struct {
		Name   string
		Frames []struct {
			Event string
			Data  json.RawMessage
		}
		Text, Reasoning string
		Status          pawl.MessageState
		Types           []string
	}](t, "contents") {
		var c pawl.MessageContent
		for _, f := range v.Frames {
			var frame pawl.MessageFrame
			to := map[string]any{"": &frame, "abandoned": &frame.Abandoned, "snapshot": &frame.Snapshot, "end": &frame.End}[f.Event]
			mustT(t, 0, json.Unmarshal(f.Data, to))
			c.Apply(frame)
		}
		types := make([]string, 0)
		for _, chunk := range c.Chunks() {
			types = append(types, chunk.Type)
		}
		if c.Text() != v.Text || c.Reasoning() != v.Reasoning || c.Status != v.Status || strings.Join(types, " ") != strings.Join(v.Types, " ") {
			t.Errorf("%s: %q, %q, %s, %v", v.Name, c.Text(), c.Reasoning(), c.Status, types)
		}
	}
}
