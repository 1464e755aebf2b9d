package store_test

import (
	"context"
	"reflect"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// A third database that can do nothing: it has all that a database must implement, and no
// more. The compiler and TestThirdDatabase keep the list exact. The package's doc says
// what each part promises.
type (
	third         struct{} // the type that the package's Open returns
	thirdTx       struct{} // what Do, Auto, Whole and View pass to fn
	thirdRows     struct{} // the result of its queries
	thirdVerbs    struct{} // the package hot: one text for each hot verb
	thirdMigrator struct{} // or store.NewMigrator on a folder of migrations
)

var (
	_ store.DB       = third{}
	_ store.Tx       = thirdTx{}
	_ store.Rows     = thirdRows{}
	_ store.Hot      = thirdVerbs{}
	_ store.Timed    = thirdVerbs{}
	_ store.Migrator = thirdMigrator{}
)

type work = func(ctx context.Context, tx store.Tx) error

func (third) Do(context.Context, work) error    { panic("to do") }
func (third) Auto(context.Context, work) error  { panic("to do") }
func (third) Whole(context.Context, work) error { panic("to do") }
func (third) View(context.Context, work) error  { panic("to do") }
func (third) Close() error                      { panic("to do") }

func (third) Dialect() *store.Dialect {
	return &store.Dialect{
		// Fields that every database sets.
		Name:     "third",
		Hot:      thirdVerbs{},
		Timed:    thirdVerbs{},
		Rewrite:  store.Rewriter(map[string]string{"@list(": "SELECT value FROM list(%s)", "@among(": "IN list(%s)"}, "pawl.", "", "@lock", ""),
		Migrator: thirdMigrator{},
		Look:     func(context.Context, work) error { panic("to do") },
		Warnings: func(context.Context) ([]store.Warning, error) { panic("to do") },
		Guard:    func() { panic("to do") },
		OnCommit: func(func(int)) { panic("to do") },
		Forget:   func() { panic("to do") },
		Pools:    func() []pawl.Pool { panic("to do") },
		Shrink:   func(context.Context, store.Tx) (bool, error) { panic("to do") },
		Compact:  func(context.Context) (int64, error) { panic("to do") },
		Snapshot: func(context.Context, store.Tx) (bool, error) { panic("to do") },
		Place:    func(context.Context, store.Tx, bool) (store.Place, error) { panic("to do") },
		Fences:   &store.Fences{},
		Wrap:     func(any) store.Tx { panic("to do") },
		// Capabilities. The zero value means that the database lacks it.
		GroupCommits:   true,
		ParallelWrites: true,
		RoundTrips:     true,
		ChecksFile:     true,
		DataVersion:    true,
		Notices:        true,
		Listens:        true,
		Lent:           true,
		// Called only with DataVersion, Notices or Listens.
		Changed: func(context.Context) (int64, error) { panic("to do") },
		Notify:  func(context.Context, []string) error { panic("to do") },
		Listen:  func(context.Context, func(), func(string)) error { panic("to do") },
		Commits: &store.Commits{ // nil if event numbers are in the order of commit
			Drawn:   func(context.Context, store.Tx) (int64, error) { panic("to do") },
			State:   func(context.Context, store.Tx) (store.FeedState, store.Server, int64, error) { panic("to do") },
			Among:   func(context.Context, store.Tx, []store.Span) ([]int64, error) { panic("to do") },
			Horizon: func(context.Context, store.Tx) (int64, int64, error) { panic("to do") },
			Running: func(context.Context, store.Tx) (store.Running, error) { panic("to do") },
			Server:  func(context.Context, store.Tx) (store.Server, error) { panic("to do") },
			Reset:   func() { panic("to do") },
		},
	}
}

func (thirdTx) Exec(context.Context, string, ...any) (int64, error)       { panic("to do") }
func (thirdTx) Query(context.Context, string, ...any) (store.Rows, error) { panic("to do") }
func (thirdTx) ExecEach(context.Context, string, [][]any) error           { panic("to do") }
func (thirdTx) Now(context.Context) (int64, error)                        { panic("to do") }

func (thirdRows) Next() bool        { panic("to do") }
func (thirdRows) Scan(...any) error { panic("to do") }
func (thirdRows) Err() error        { panic("to do") }
func (thirdRows) Close()            { panic("to do") }

func (thirdVerbs) Create(context.Context, store.Tx, []store.NewTask, []store.NewItem) (int64, error) {
	panic("to do")
}
func (thirdVerbs) Claim(context.Context, store.Tx, store.Claim) ([]store.Claimed, error) {
	panic("to do")
}

// Heads implements store.Hot.
func (thirdVerbs) Heads(context.Context, store.Tx, int64, []store.GateWish) (map[int64][]store.Pick, error) {
	panic("to do")
}
func (thirdVerbs) Touch(context.Context, store.Tx, []store.Touch) ([]store.Touched, error) {
	panic("to do")
}
func (thirdVerbs) Checkpoint(context.Context, store.Tx, []store.Checkpoint) ([]store.Checkpointed, error) {
	panic("to do")
}
func (thirdVerbs) OpenEffect(context.Context, store.Tx, []store.OpenEffect) ([]int, error) {
	return nil, nil // the ledger of effects decides
}
func (thirdVerbs) ReportEffect(context.Context, store.Tx, []store.ReportEffect) ([]store.ReportEffect, error) {
	return nil, nil
}
func (thirdVerbs) Append(context.Context, store.Tx, []store.Append) ([]store.Appended, error) {
	panic("to do")
}
func (thirdVerbs) Tail(context.Context, store.Tx, []store.ChunkPosition, int) (map[string][]store.ChunkRow, error) {
	panic("to do")
}
func (thirdVerbs) Complete(context.Context, store.Tx, []store.Complete) ([]store.Moved, error) {
	panic("to do")
}
func (thirdVerbs) Leave(context.Context, store.Tx, []store.Leave) ([]store.Moved, error) {
	panic("to do")
}
func (thirdVerbs) Reserve(context.Context, store.Tx, store.Fence, string, string, *pawl.ReserveCall) (pawl.Reserved, bool, error) {
	panic("to do")
}
func (thirdVerbs) Settle(context.Context, store.Tx, store.Fence, string, *pawl.SettleCall) (pawl.Settled, bool, error) {
	panic("to do")
}
func (thirdVerbs) Expire(context.Context, store.Tx, int, []string, bool, []string) ([]store.Expired, error) {
	panic("to do")
}
func (thirdVerbs) Due(context.Context, store.Tx, int, []string) ([]store.DueItem, error) {
	panic("to do")
}

func (thirdMigrator) Up(context.Context) ([]store.Migration, error)     { panic("to do") }
func (thirdMigrator) Status(context.Context) ([]store.Migration, error) { panic("to do") }
func (thirdMigrator) Newest() int64                                     { panic("to do") }
func (thirdMigrator) SQL(int64) (string, error)                         { panic("to do") }

// The list above has every field of a Dialect, and no method that is in none of the
// interfaces.
func TestThirdDatabase(t *testing.T) {
	d := third{}.Dialect()
	for _, all := range []reflect.Value{reflect.ValueOf(*d), reflect.ValueOf(*d.Commits)} {
		for i := range all.NumField() {
			if all.Field(i).IsZero() {
				t.Errorf("%s.%s is not in the list", all.Type(), all.Type().Field(i).Name)
			}
		}
	}
	methods := func(of ...reflect.Type) (n int) {
		for _, o := range of {
			n += o.NumMethod()
		}
		return n
	}
	for _, c := range []struct {
		has  any
		asks []reflect.Type
	}{
		{third{}, []reflect.Type{reflect.TypeFor[store.DB]()}},
		{thirdTx{}, []reflect.Type{reflect.TypeFor[store.Tx]()}},
		{thirdRows{}, []reflect.Type{reflect.TypeFor[store.Rows]()}},
		{thirdVerbs{}, []reflect.Type{reflect.TypeFor[store.Hot](), reflect.TypeFor[store.Timed]()}},
		{thirdMigrator{}, []reflect.Type{reflect.TypeFor[store.Migrator]()}},
	} {
		if has, asks := methods(reflect.TypeOf(c.has)), methods(c.asks...); has != asks {
			t.Errorf("%T has %d methods; %d are asked for", c.has, has, asks)
		}
	}
}
