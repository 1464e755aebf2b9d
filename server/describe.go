package server

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// config returns the API's description before its operations are added.
func config() huma.Config {
	registry := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	for from, to := range written {
		registry.RegisterTypeAlias(from, to)
	}
	c := huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "Pawl",
				Description: "Durable work: tasks made of items, leased to workers, fenced by attempt. Refusals are " +
					"application/problem+json; programs match on `code`. The id of a task or an item " +
					"may also be given as a UUID of the same 16 bytes, wherever it is given; answers have the text.",
			},
			Servers: []*huma.Server{{URL: "http://127.0.0.1:7033", Description: "pawl serve on its default address"}},
			Tags:    tags(),
			Components: &huma.Components{
				Schemas: registry,
				SecuritySchemes: map[string]*huma.SecurityScheme{"key": {Type: "http", Scheme: "bearer",
					Description: "An API key. A server on a loopback address takes calls without one."}},
			},
		},
		Formats:       map[string]huma.Format{"application/json": format, "json": format},
		DefaultFormat: "application/json",
		Transformers:  []huma.Transformer{sparse},
	}
	c.AllowAdditionalPropertiesByDefault = true // decode refuses unknown members and says where they are
	return c
}

// security names the key on each operation. The empty requirement beside it says that a call may
// need no key, as on loopback. Routes for Anyone, such as health, have only the empty one.
func security(r api.Route) []map[string][]string {
	if r.Role == api.Anyone {
		return []map[string][]string{{}}
	}
	return []map[string][]string{{"key": {}}, {}}
}

// callerParams are the headers that every call of the service takes.
func callerParams(r api.Route) []*huma.Param {
	if r.Role == api.Anyone {
		return nil
	}
	text := &huma.Schema{Type: huma.TypeString}
	params := []*huma.Param{
		{Name: api.NamespaceHeader, In: "header", Schema: text, Description: "The namespace of the call, percent-encoded; default without it."},
		{Name: api.ActorHeader, In: "header", Schema: text, Description: "Who events name, as type/id or type, percent-encoded."},
	}
	if !r.TakesKey() {
		return params
	}
	longest, least := pawl.MaxKeyLen, float64(minKeySeconds)
	return append(params,
		&huma.Param{Name: api.KeyHeader, In: "header", Schema: &huma.Schema{Type: huma.TypeString, MaxLength: &longest},
			Description: "The call is carried out once for its key; later calls get the first answer."},
		&huma.Param{Name: api.KeySecondsHeader, In: "header", Schema: &huma.Schema{Type: huma.TypeInteger, Minimum: &least},
			Description: "How long the answer is kept; 24 hours without it."})
}

// tag groups operations by the first word of their path after the version.
func tag(path string) string {
	words := strings.FieldsFunc(path, func(r rune) bool { return r == '/' || r == ':' })
	switch {
	case words[0] == "v1":
		return words[1]
	case words[0] == "tasks":
		return "plain"
	}
	return "server"
}

// about says what each group is for.
var about = map[string]string{
	"tasks":            "Requests for work.",
	"signals":          "What suspended items wait for.",
	"claims":           "Taking work.",
	"items":            "Doing work: every write carries the worker and the attempt of its claim.",
	"parts":            "Results in pieces.",
	"messages":         "What agents say, while they say it.",
	"bulk":             "One verb for many tasks.",
	"blobs":            "Bytes that are too many for a payload.",
	"events":           "Events.",
	"chat":             "Chat for clients of the AI SDK.",
	"checkpoints":      "What attempts have saved.",
	"workers":          "Who does the work.",
	"types":            "What kinds of tasks there are, and their rules.",
	"stats":            "Statistics.",
	"log":              "The transparency log of all events.",
	"sweeps":           "Sweeps.",
	"archives":         "Tasks that retention has archived.",
	"relays":           "Delivery of events.",
	"queues":           "What is claimable, by type.",
	"budgets":          "Allowances of tokens, money or requests.",
	"streams":          "Messages, and streams that clients create, as Durable Streams.",
	"effects":          "Calls to the outside that change something there.",
	"schedules":        "Tasks at certain times.",
	"inbound":          "Webhooks of other systems.",
	"task-token":       "Checks whether a lease is still valid.",
	"idempotency-keys": "Keys for side effects of the caller's own.",
	"plain":            "The older shape of tasks.",
	"server":           "How the server itself is.",
}

func tags() []*huma.Tag {
	var out []*huma.Tag
	seen := map[string]bool{}
	for _, r := range api.Routes {
		if t := tag(r.Path); !seen[t] {
			seen[t] = true
			out = append(out, &huma.Tag{Name: t, Description: about[t]})
		}
	}
	return out
}

// streamsOf describes the answers of a route that streams or writes a document; nil for all
// other routes.
func streamsOf(r api.Route) map[string]*huma.Response {
	kind, says, schema := r.Document, "OK", &huma.Schema{Type: huma.TypeString}
	switch {
	case r.Stream != "":
		kind, says = eventStream, r.Stream
	case kind == "application/json":
		schema.Type = huma.TypeObject
	case kind == "":
		return nil
	}
	out := map[string]*huma.Response{"200": {Description: says, Content: map[string]*huma.MediaType{kind: {Schema: schema}}}}
	if r.Has(api.SendsBytes) {
		schema.Format = "binary"
		out["206"] = &huma.Response{Description: "The range that Range asks for.", Content: out["200"].Content}
		out["304"] = &huma.Response{Description: "If-None-Match names the address: a blob never changes."}
		out["416"] = &huma.Response{Description: "The blob does not have the range.",
			Content: map[string]*huma.MediaType{api.ProblemType: {Schema: &huma.Schema{Ref: "#/components/schemas/Problem"}}}}
	}
	if r.Name == "resume_chat" {
		out["204"] = &huma.Response{Description: "No reply is being made."}
	}
	return out
}

// written maps types that write their own JSON, and texts with a fixed list of values, to
// types that describe them.
var written = map[reflect.Type]reflect.Type{
	reflect.TypeFor[pawl.Failure]():           reflect.TypeFor[failure](),
	reflect.TypeFor[pawl.Dedupe]():            reflect.TypeFor[dedupe](),
	reflect.TypeFor[pawl.ChildNeed]():         reflect.TypeFor[childNeed](),
	reflect.TypeFor[pawl.QueuePatch]():        reflect.TypeFor[queuePatch](),
	reflect.TypeFor[pawl.Texts]():             reflect.TypeFor[textList](),
	reflect.TypeFor[pawl.MemberValues]():      reflect.TypeFor[memberValues](),
	reflect.TypeFor[bulkBody]():               reflect.TypeFor[bulkSchema](),
	reflect.TypeFor[pawl.TaskState]():         reflect.TypeFor[taskState](),
	reflect.TypeFor[pawl.ItemState]():         reflect.TypeFor[itemState](),
	reflect.TypeFor[pawl.Status]():            reflect.TypeFor[status](),
	reflect.TypeFor[pawl.Code]():              reflect.TypeFor[code](),
	reflect.TypeFor[pawl.MessageState]():      reflect.TypeFor[messageState](),
	reflect.TypeFor[pawl.Words]():             reflect.TypeFor[textOfChunk](),
	reflect.TypeFor[problem]():                reflect.TypeFor[api.Problem](),
	reflect.TypeFor[api.Chat]():               reflect.TypeFor[chat](),
	reflect.TypeFor[api.TaskFields]():         reflect.TypeFor[membersOf[pawl.Task]](),
	reflect.TypeFor[api.ItemFields]():         reflect.TypeFor[membersOf[pawl.Item]](),
	reflect.TypeFor[api.IncludedFields]():     reflect.TypeFor[membersOf[api.Included]](),
	reflect.TypeFor[api.ItemIncludedFields](): reflect.TypeFor[membersOf[api.ItemIncluded]](),
	reflect.TypeFor[api.TaskStatuses]():       reflect.TypeFor[taskStatuses](),
	reflect.TypeFor[api.KeyStatus]():          reflect.TypeFor[keyStatus](),
}

type (
	failure      struct{}
	dedupe       struct{}
	queuePatch   struct{}
	textList     struct{}
	memberValues struct{}
	childNeed    struct{}
	taskState    string
	itemState    string
	status       string
	code         string
	messageState string
	textOfChunk  struct{}
	chat         struct{}
	keyStatus    struct{}
	taskStatuses struct{}

	// membersOf is a list of names of JSON members of T.
	membersOf[T any] struct{}
)

func (failure) Schema(huma.Registry) *huma.Schema {
	text := &huma.Schema{Type: huma.TypeString}
	return &huma.Schema{
		Description: "Why it failed; a text alone is its message.",
		OneOf: []*huma.Schema{
			{Type: huma.TypeString},
			{
				Type:                 huma.TypeObject,
				Properties:           map[string]*huma.Schema{"code": text, "message": text, "detail": {}},
				Required:             []string{"message"},
				AdditionalProperties: false,
			},
		},
	}
}

func (dedupe) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		Description: "true: by payload and items; a list: by the values at these JSON Pointers into the payload.",
		OneOf: []*huma.Schema{
			{Type: huma.TypeBoolean},
			{Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString}},
		},
	}
}

func (childNeed) Schema(huma.Registry) *huma.Schema {
	least := 1.0
	return &huma.Schema{
		Description: "How many of the children have to end: all, any or a number.",
		OneOf: []*huma.Schema{
			{Type: huma.TypeString, Enum: []any{"all", "any"}},
			{Type: huma.TypeInteger, Minimum: &least},
		},
	}
}

func (textList) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		Description: "A text, or a list of texts: any of them.",
		OneOf: []*huma.Schema{
			{Type: huma.TypeString},
			{Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString}},
		},
	}
}

func (memberValues) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		Type:        huma.TypeObject,
		Description: "Members of metadata and their values.",
		AdditionalProperties: &huma.Schema{OneOf: []*huma.Schema{
			{Type: huma.TypeString}, {Type: huma.TypeNumber}, {Type: huma.TypeBoolean},
		}},
	}
}

func (taskState) Schema(huma.Registry) *huma.Schema { return shown(pawl.TaskStates) }
func (itemState) Schema(huma.Registry) *huma.Schema { return shown(pawl.ItemStates) }

func (messageState) Schema(huma.Registry) *huma.Schema { return shown(pawl.MessageStates) }

func (chat) Schema(r huma.Registry) *huma.Schema {
	text := &huma.Schema{Type: huma.TypeString}
	said := &huma.Schema{
		Type:        huma.TypeObject,
		Description: "A UIMessage of the AI SDK.",
		Properties: map[string]*huma.Schema{"id": text, "role": text, "metadata": {},
			"parts": {Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeObject}}},
	}
	return &huma.Schema{
		Type: huma.TypeObject,
		Description: "What DefaultChatTransport of the npm package ai sends; other members are the application's, and go " +
			"into the task's payload.",
		Properties: map[string]*huma.Schema{
			"id":        {Type: huma.TypeString, Description: "The chat's, which is the thread."},
			"messages":  {Type: huma.TypeArray, Items: said, Description: "All that was said, or only what was said last, which is a user's."},
			"message":   said,
			"trigger":   words(api.ChatSubmit, api.ChatRegenerate),
			"messageId": {Type: huma.TypeString, Description: "Of the message that is said again, or made again."},
			"model":     {Type: huma.TypeString, Description: "The reply's."},
		},
		Required:             []string{"id"},
		AdditionalProperties: true,
	}
}

func (textOfChunk) Schema(huma.Registry) *huma.Schema { return &huma.Schema{Type: huma.TypeString} }

func (status) Schema(huma.Registry) *huma.Schema {
	return words(texts(pawl.ItemStatuses)...)
}

func (taskStatuses) Schema(huma.Registry) *huma.Schema { return listOf(texts(pawl.TaskStatuses)) }

func (keyStatus) Schema(huma.Registry) *huma.Schema { return words(pawl.KeyStatuses...) }

func (membersOf[T]) Schema(huma.Registry) *huma.Schema {
	var names []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return listOf(names)
}

func (code) Schema(huma.Registry) *huma.Schema {
	var names []string
	for _, e := range pawl.Errors {
		names = append(names, string(e.Code))
	}
	return words(names...)
}

func shown(states []pawl.StateInfo) *huma.Schema {
	var names []string
	for _, s := range states {
		if s.Shown {
			names = append(names, s.Name)
		}
	}
	return words(names...)
}

func listOf(names []string) *huma.Schema {
	return &huma.Schema{Type: huma.TypeArray, Items: words(names...)}
}

func words(names ...string) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString}
	for _, n := range names {
		s.Enum = append(s.Enum, n)
	}
	return s
}

// describe writes the description after all operations are registered. It adds the limits of
// pawl.Limits only now, after huma has built its checks from the schemas: the service checks
// these limits itself, for each call of a batch separately.
func describe(o *huma.OpenAPI, version string) []byte {
	raw, err := json.Marshal(o)
	if err != nil {
		panic(err) // it is made of constants: this is a programmer's error
	}
	var doc map[string]any
	if err := json.Unmarshal(raw, &doc); err != nil {
		panic(err)
	}
	doc["info"].(map[string]any)["version"] = version
	schemas := doc["components"].(map[string]any)["schemas"].(map[string]any)
	closeRequests(doc, schemas)
	describeRefusals(doc)
	for _, v := range views {
		schemas[v].(map[string]any)["required"] = []string{"id"}
	}
	describePositive(schemas)
	describeBounds(schemas)
	for _, w := range wordLists {
		schema, name, _ := strings.Cut(w.property, ".")
		property(schemas[schema], name)["enum"] = w.words
	}
	for _, n := range nullable {
		schema, name, _ := strings.Cut(n, ".")
		if p := property(schemas[schema], name); p != nil {
			forms, several := p["oneOf"].([]any)
			if !several {
				forms = []any{map[string]any{"$ref": p["$ref"]}}
			}
			p["oneOf"] = append(forms, map[string]any{"type": "null"})
			delete(p, "$ref")
		}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(doc); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// closeRequests states that request bodies take no other members. Answers may gain members
// later.
func closeRequests(doc, schemas map[string]any) {
	for _, s := range schemas {
		delete(s.(map[string]any), "additionalProperties")
	}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			ref, _ := v["$ref"].(string)
			if s, ok := schemas[strings.TrimPrefix(ref, "#/components/schemas/")].(map[string]any); ok && s["additionalProperties"] == nil {
				s["additionalProperties"] = false
				walk(s)
			}
			for _, e := range v {
				walk(e)
			}
		}
	}
	for _, path := range doc["paths"].(map[string]any) {
		for _, op := range path.(map[string]any) {
			walk(op.(map[string]any)["requestBody"])
		}
	}
}

func property(schema any, name string) map[string]any {
	object, _ := schema.(map[string]any)
	all, _ := object["properties"].(map[string]any)
	p, _ := all[name].(map[string]any)
	return p
}

// wordLists are the members with a fixed list of values that the service declares as text.
var wordLists = []struct {
	property string
	words    []string
}{
	{"Checkpoint.type", pawl.CheckpointTypes},
	{"TaskCheckpointBody.type", pawl.TaskCheckpointTypes},
	{"CheckpointBody.type", pawl.CheckpointTypes},
	{"CheckpointCall.type", pawl.CheckpointTypes},
	{"TaskCheckpoint.type", pawl.TaskCheckpointTypes},
	{"AppendedCheckpoint.type", pawl.TaskCheckpointTypes},
	{"AppendedCheckpoint.on_conflict", pawl.NameConflicts},
	{"Event.event", eventNames()},
	{"Event.actor_type", pawl.ActorTypes},
	{"Blocked.reason", pawl.BlockedReasons},
	{"NewSchedule.overlap", texts(pawl.Overlaps)},
	{"NewSchedule.catch_up", texts(pawl.CatchUps)},
	{"Schedule.overlap", texts(pawl.Overlaps)},
	{"Schedule.catch_up", texts(pawl.CatchUps)},
	{"Firing.outcome", texts(pawl.FiringOutcomes)},
	{"Task.status", texts(pawl.TaskStatuses)},
	{"TaskView.status", texts(pawl.TaskStatuses)},
	{"Key.status", pawl.KeyStatuses},
	{"Problem.reason", []string{pawl.ReasonTaken, pawl.ReasonExpired, pawl.ReasonReleased, pawl.ReasonPruned,
		pawl.ReasonSequence, pawl.ReasonName, pawl.ReasonEpoch, pawl.ReasonEffectOpen, pawl.GiveUp}},
}

func texts[S ~string](words []S) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = string(w)
	}
	return out
}

func eventNames() []string {
	var names []string
	for _, e := range pawl.Events {
		names = append(names, e.Name)
	}
	return names
}

// nullable are the members that are null instead of being left out.
var nullable = []string{
	"ResumeState.newest", "ResumeState.iteration_start", "ResumeState.iteration_end", "ResumeState.error_boundary", "SweepTotals.last_scan",
	"ResumeState.open_message", "Task.blocked_by", "TaskView.blocked_by", "Item.blocked_by", "ItemView.blocked_by",
	"Schedule.error",
}
