package pawl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Bounds of the hashes that a step keeps of single arguments.
const (
	maxArgHashes  = 32 // entries
	maxArgNameLen = 64 // bytes of a member's name
	argHashLen    = 16 // hexadecimal digits
)

// stepArgs identifies the arguments of a step. A later attempt compares the hash of all of them;
// the hashes of single ones only name what differs.
type stepArgs struct {
	hash  string
	parts map[string]string // by JSON Pointer into the list of arguments
}

// argsOf hashes a step's arguments. An argument that is an object has an entry for each
// member, others have one; more than maxArgHashes entries are not kept.
func argsOf(name string, args []any) (stepArgs, error) {
	if args == nil {
		args = []any{} // no arguments are an empty list, not null
	}
	hash, err := HashOf(args)
	if err != nil {
		return stepArgs{}, stepError(name, "its arguments cannot be hashed (%v)", err)
	}
	out := stepArgs{hash: hash}
	if len(args) > maxArgHashes {
		return out, nil
	}
	if out.parts, err = argHashes(args, true); err == nil && len(out.parts) > maxArgHashes {
		out.parts, err = argHashes(args, false)
	}
	if err != nil {
		return stepArgs{}, stepError(name, "its arguments cannot be hashed (%v)", err)
	}
	return out, nil
}

// argHashes returns short hashes of arguments by JSON Pointer; with members, those of the
// members of objects.
func argHashes(args []any, members bool) (map[string]string, error) {
	out := map[string]string{}
	add := func(pointer string, v any) error {
		hash, err := HashOf(v)
		if err == nil {
			out[pointer] = hash[:argHashLen]
		}
		return err
	}
	for n, arg := range args {
		pointer := "/" + strconv.Itoa(n)
		raw, err := json.Marshal(arg)
		if err != nil {
			return nil, err
		}
		object := map[string]json.RawMessage{}
		if members && bytes.HasPrefix(raw, []byte("{")) {
			if err := json.Unmarshal(raw, &object); err != nil {
				return nil, err
			}
		}
		for name := range object {
			if len(name) > maxArgNameLen {
				clear(object)
			}
		}
		if len(object) == 0 {
			err = add(pointer, json.RawMessage(raw))
		}
		for name, v := range object {
			if err = add(pointer+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(name), v); err != nil {
				break
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// stepMetadata is what the metadata of a step's checkpoint has for a later attempt.
type stepMetadata struct {
	Args      map[string]string `json:"args,omitempty"`
	MessageID string            `json:"message_id,omitempty"` // of a step of a message
	TookMS    int64             `json:"took_ms,omitempty"`    // how long the function ran, in milliseconds
}

func (m stepMetadata) json() json.RawMessage {
	if len(m.Args) == 0 && m.MessageID == "" && m.TookMS == 0 {
		return nil
	}
	raw, _ := json.Marshal(m) // plain values
	return raw
}

func metadataOf(c Checkpoint) (m stepMetadata) {
	_ = json.Unmarshal(c.Metadata, &m) // a checkpoint that another program saved may have any metadata
	return m
}

// differing names what differs between the saved arguments and those of now, as JSON Pointers
// into the list of arguments; "" = it is not known.
func (a stepArgs) differing(saved map[string]string) string {
	if len(saved) == 0 || len(a.parts) == 0 {
		return ""
	}
	all := maps.Clone(saved)
	maps.Copy(all, a.parts)
	var out []string
	for _, pointer := range slices.Sorted(maps.Keys(all)) {
		if saved[pointer] != a.parts[pointer] {
			out = append(out, pointer)
		}
	}
	const most = 5
	if len(out) > most {
		out = append(out[:most], fmt.Sprintf("and %d more", len(out)-most))
	}
	return strings.Join(out, ", ")
}
