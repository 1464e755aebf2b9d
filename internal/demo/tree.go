package demo

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pawl-work/pawl"
)

// These types are the demo's work: the facts of every file of a tree, a few dozen files per
// item.
type (
	// fileSet is the input of an item; paths lie under the root, with slashes.
	fileSet struct {
		Files []string `json:"files"`
	}
	// fileFacts are the result of a step: facts about one file.
	fileFacts struct {
		SHA256 string `json:"sha256"`
		Lines  int64  `json:"lines"`
		Bytes  int64  `json:"bytes"`
	}
	// setFacts are an item's result: the sums, and a digest over every file's path and facts.
	// Two results have the same digest only if all their facts are equal.
	setFacts struct {
		Files  int64  `json:"files"`
		Lines  int64  `json:"lines"`
		Bytes  int64  `json:"bytes"`
		SHA256 string `json:"sha256"`
	}
)

const (
	minFiles    = 10
	itemsWanted = 240 // 50 at least where there are files enough for several in each
)

// goSource returns the source tree of the Go on PATH.
func goSource(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	root := strings.TrimSpace(string(out))
	if err != nil || root == "" {
		return "", invalidInput("there is no go on PATH whose source tree could be read; name a folder with --input")
	}
	return filepath.Join(root, "src"), nil
}

// treeFiles lists the files of a tree that is to be worked on.
func treeFiles(root string) ([]string, error) {
	files, err := walkFiles(root)
	if err != nil {
		return nil, invalidInput("%v", err)
	}
	if len(files) < minFiles {
		return nil, invalidInput("%s has %d files; the demo wants %d at least", root, len(files), minFiles)
	}
	return files, nil
}

// walkFiles lists the regular files under root in the order of their paths.
// Names that JSON cannot hold are left out.
func walkFiles(root string) (files []string, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err == nil && utf8.ValidString(rel) {
			files = append(files, filepath.ToSlash(rel))
		}
		return err
	})
	return files, err
}

// split divides files into items of at least two files.
func split(files []string) ([]pawl.NewItem, error) {
	n := min(itemsWanted, len(files)/2)
	items := make([]pawl.NewItem, n)
	for i := range items {
		set := files[i*len(files)/n : (i+1)*len(files)/n]
		input, err := json.Marshal(fileSet{set})
		if err != nil {
			return nil, err
		}
		items[i] = pawl.NewItem{Key: fmt.Sprintf("set-%03d", i+1), Input: input}
	}
	return items, nil
}

// factsOf reads one file.
func factsOf(root, path string) (fileFacts, error) {
	raw, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
	if err != nil {
		return fileFacts{}, err
	}
	sum := sha256.Sum256(raw)
	return fileFacts{SHA256: hex.EncodeToString(sum[:]), Lines: int64(bytes.Count(raw, []byte("\n"))), Bytes: int64(len(raw))}, nil
}

// sum adds up the facts of an item's files; of returns those of each file.
func (s fileSet) sum(of func(i int, path string) (fileFacts, error)) (setFacts, error) {
	var out setFacts
	digest := sha256.New()
	for i, path := range s.Files {
		f, err := of(i, path)
		if err != nil {
			return setFacts{}, err
		}
		out.Files++
		out.Lines += f.Lines
		out.Bytes += f.Bytes
		fmt.Fprintf(digest, "%q %s %d %d\n", path, f.SHA256, f.Lines, f.Bytes)
	}
	out.SHA256 = hex.EncodeToString(digest.Sum(nil))
	return out, nil
}

// expectedResults computes the expected result without Pawl.
func expectedResults(root string, items []pawl.NewItem) (map[string]setFacts, error) {
	out := make(map[string]setFacts, len(items))
	for _, it := range items {
		var set fileSet
		if err := json.Unmarshal(it.Input, &set); err != nil {
			return nil, err
		}
		sum, err := set.sum(func(_ int, path string) (fileFacts, error) { return factsOf(root, path) })
		if err != nil {
			return nil, err
		}
		out[it.Key] = sum
	}
	return out, nil
}

// merge adds sets up. Its digest covers the digests of the sets, in the order of their keys.
func merge(sets map[string]setFacts) setFacts {
	var out setFacts
	digest := sha256.New()
	keys := make([]string, 0, len(sets))
	for key := range sets {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		s := sets[key]
		out.Files += s.Files
		out.Lines += s.Lines
		out.Bytes += s.Bytes
		fmt.Fprintf(digest, "%s %s\n", key, s.SHA256)
	}
	out.SHA256 = hex.EncodeToString(digest.Sum(nil))
	return out
}
