package demo

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
)

// These types are the work order of demo --agents: each of several copied files gets a first
// line that describes it.
type (
	// order is the task's payload, and with some of the files an item's input.
	order struct {
		Folder string   `json:"folder"`
		Files  []string `json:"files"` // paths under it, with slashes
	}
	// firstLine is a part: the new first line of one file.
	firstLine struct {
		Path string `json:"path"`
		Line string `json:"line"`
	}
	// lines are an item's result, assembled from its parts.
	lines struct {
		Line []firstLine `json:"line"`
	}
)

const (
	OrderFiles  = 12 // real files, at most
	orderChunk  = 4  // to an item
	orderBytes  = 64 << 10
	missingHash = "unsealed" // the code of the rejection: the line is to name the file's hash
	slashes     = "// "      // what a line is to begin with
)

// orderType is the task's type.
func (c *agentRun) orderType() pawl.Type {
	return pawl.Type{
		Name:        c.typ,
		Description: "Give every file a first line that says what is in it.",
		PayloadSchema: json.RawMessage(
			`{"type":"object","required":["folder","files"],"properties":{"folder":{"type":"string"},"files":{"type":"array","minItems":1,` +
				`"items":{"type":"string"}}}}`,
		),
		Plan: pawl.Plan{Mode: pawl.PlanSplit, Pointer: "/files", Size: orderChunk, Keep: []string{"folder"}},
		Parts: []pawl.PartRule{{Key: "line", Required: true, Repeatable: true, Schema: json.RawMessage(
			`{"type":"object","required":["path","line"],"additionalProperties":false,"properties":{"path":{"type":"string"},` +
				`"line":{"type":"string","pattern":"^` + slashes + `","maxLength":500}}}`,
		)}},
		ResultSchema:     json.RawMessage(`{"type":"object","required":["line"],"properties":{"line":{"type":"array","minItems":1}}}`),
		EvidenceRequired: true,
		Approval:         pawl.Approval{Mode: pawl.ApprovalManual},
		Apply:            pawl.Apply{Mode: pawl.ApplyItem},
		LeaseSeconds:     leaseSeconds,
	}
}

// describe returns a file's first line; sealed, with the beginning of its hash.
func describe(path string, raw []byte, sealed bool) string {
	line := fmt.Sprintf("%s: %d lines, %d words", path, bytes.Count(raw, []byte("\n")), len(bytes.Fields(raw)))
	if sealed {
		line += ", sha256 " + hashOf(raw)[:12]
	}
	return line
}

func hashOf(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// under returns the path of a file in a tree.
func under(root, path string) string { return filepath.Join(root, filepath.FromSlash(path)) }

// copyFiles copies the first few Go files of the tree to the folder of the order.
func (c *agentRun) copyFiles() error {
	all, err := treeFiles(c.Input)
	if err != nil {
		return err
	}
	c.order.Folder = c.folder
	for _, path := range all {
		if info, err := os.Stat(under(c.Input, path)); err != nil || info.Size() > orderBytes || !strings.HasSuffix(path, ".go") {
			continue
		}
		raw, err := os.ReadFile(under(c.Input, path))
		if err != nil {
			return err
		}
		to := under(c.folder, path)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(to, raw, 0o600); err != nil {
			return err
		}
		if c.order.Files = append(c.order.Files, path); len(c.order.Files) == OrderFiles {
			return nil
		}
	}
	if len(c.order.Files) <= orderChunk {
		return invalidInput("%s has %d small Go files; the order wants %d at least", c.Input, len(c.order.Files), orderChunk+1)
	}
	return nil
}

// wantedFiles computes the expected result without Pawl. The lines of the first item
// name the hashes, since it was rejected once.
func (c *agentRun) wantedFiles() (map[string]string, error) {
	want := map[string]string{}
	for i, path := range c.order.Files {
		raw, err := os.ReadFile(under(c.Input, path))
		if err != nil {
			return nil, err
		}
		want[path] = slashes + describe(path, raw, i < orderChunk) + "\n" + string(raw)
	}
	return want, nil
}

// apply writes the lines of an approved order into the files. It does not rewrite what an
// earlier attempt wrote.
func (c *agentRun) apply(ctx context.Context) (pawl.Applied, error) {
	before, after, ops := map[string]string{}, map[string]string{}, []map[string]string{}
	items, err := c.items(ctx)
	if err != nil {
		return pawl.Applied{}, err
	}
	for _, it := range items {
		var result lines
		if err := json.Unmarshal(it.Result, &result); err != nil {
			return pawl.Applied{}, fmt.Errorf("the result of %s: %w", it.ID, err)
		}
		for _, l := range result.Line {
			file, head := under(c.folder, l.Path), []byte(l.Line+"\n")
			raw, err := os.ReadFile(file)
			if err != nil {
				return pawl.Applied{}, err
			}
			old := bytes.TrimPrefix(raw, head)
			if err := os.WriteFile(file+".new", slices.Concat(head, old), 0o600); err != nil {
				return pawl.Applied{}, err
			}
			if err := os.Rename(file+".new", file); err != nil {
				return pawl.Applied{}, err
			}
			before[l.Path], after[l.Path] = hashOf(old), hashOf(slices.Concat(head, old))
			ops = append(
				ops,
				map[string]string{
					"op":    "replace",
					"path":  "/" + strings.ReplaceAll(strings.ReplaceAll(l.Path, "~", "~0"), "/", "~1"),
					"value": after[l.Path],
				},
			)
		}
	}
	return pawl.Applied{Diff: &pawl.Diff{
		Summary: fmt.Sprintf("%d files have a first line that says what is in them", len(ops)),
		Before:  encoded(before), After: encoded(after), Operations: encoded(ops), Counts: map[string]int64{"files": int64(len(ops))},
	}}, nil
}

func encoded(v any) json.RawMessage {
	raw, _ := json.Marshal(v) // texts always encode
	return raw
}

// compare compares the recorded diff with the disk, and the disk with the expected
// result.
func (c *agentRun) compare(diff json.RawMessage) error {
	var d pawl.Diff
	if err := json.Unmarshal(diff, &d); err != nil {
		return err
	}
	var before, after map[string]string
	if err := json.Unmarshal(d.Before, &before); err != nil {
		return err
	}
	if err := json.Unmarshal(d.After, &after); err != nil {
		return err
	}
	c.log("%s", d.Summary)
	want, err := c.wantedFiles()
	if err != nil {
		return err
	}
	there, err := walkFiles(c.folder)
	if err != nil {
		return err
	}
	c.report.Exact = slices.Equal(there, c.order.Files) && len(after) == len(there)
	for _, path := range there {
		raw, err := os.ReadFile(under(c.folder, path))
		if err != nil {
			return err
		}
		first, old, _ := strings.Cut(string(raw), "\n")
		c.log("--- %s %.12s\n+++ %s %.12s\n+%s", path, before[path], path, after[path], first)
		if hashOf(raw) != after[path] || hashOf([]byte(old)) != before[path] || string(raw) != want[path] {
			c.report.Exact = false
		}
	}
	c.check(c.report.Exact, "the files are not what the order and its diff say")
	return nil
}
