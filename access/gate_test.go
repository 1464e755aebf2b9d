package access_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/internal/asked"
)

// oneKey stores one API key.
type oneKey struct{ pawl.APIKey }

func (k oneKey) FindAPIKey(context.Context, string) (pawl.APIKey, error) {
	if k.ExpiresAt != nil && !time.Now().Before(*k.ExpiresAt) {
		return pawl.APIKey{}, pawl.ErrUnauthenticated
	}
	return k.APIKey, nil
}

func (oneKey) UseAPIKeys(context.Context, []pawl.APIKeyUse) error { return nil }

// A key is not used from the cache after it has expired.
func TestAKeyEndsAtItsExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until := time.Now().Add(500 * time.Millisecond)
		g := access.New(access.Options{Keys: oneKey{pawl.APIKey{ID: "key_1", ExpiresAt: &until}}})
		if _, err := g.Enter(t.Context(), "token"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(500 * time.Millisecond)
		if _, err := g.Enter(t.Context(), "token"); pawl.CodeOf(err) != pawl.CodeUnauthenticated {
			t.Errorf("after its expiry: %v", err)
		}
	})
}

// What a key does not use of its rate is not left for later.
func TestARateIsNotSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := access.New(access.Options{Keys: oneKey{pawl.APIKey{ID: "key_1"}}, RatePerKey: 2})
		enter := func() error {
			_, err := g.Enter(t.Context(), "token")
			return err
		}
		if err := enter(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		for n := range 3 {
			if err := enter(); (pawl.CodeOf(err) == pawl.CodeLimit) != (n == 2) {
				t.Errorf("call %d: %v", n, err)
			}
		}
	})
}

// A role in one namespace makes no call that concerns all, also for a user who has another role in
// all of them.
func TestARoleIsOfItsNamespace(t *testing.T) {
	p, err := access.New(access.Options{}).EnterAs(access.Principal{ID: "u", Name: "u", Grants: []access.Grant{
		{Namespace: pawl.AnyNamespace, Roles: []string{"reader"}}, {Namespace: pawl.DefaultNamespace, Roles: []string{"operator"}}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		role   string
		global bool
		may    bool
	}{{"reader", true, true}, {"operator", false, true}, {"operator", true, false}} {
		if err := p.May(c.role, c.global); (err == nil) != c.may {
			t.Errorf("%s, global %v: %v", c.role, c.global, err)
		}
	}
}

// A key without payloads sees those of a resume state only while it holds the lease.
func TestAResumeStateIsHiddenFromOthers(t *testing.T) {
	reader := access.Pass{Key: &pawl.APIKey{Roles: []string{"reader", "claimer"}}}
	for held, hides := range map[bool]bool{true: false, false: true} {
		if got := reader.HidesFrom(api.RouteOf("resume_item"), &pawl.ResumeState{Held: held}); got != hides {
			t.Errorf("held %v: hidden %v", held, got)
		}
	}
}

// The rows of a copy count as calls that were made: the key makes no others for a while, at most for
// a minute.
func TestRowsCountAsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := access.New(access.Options{Keys: oneKey{pawl.APIKey{ID: "key_1", Roles: []string{"submitter"}, Namespace: "n"}}, RatePerKey: 10})
		enter := func() error {
			pass, err := g.Enter(t.Context(), "token")
			if err != nil {
				return err
			}
			ctx, err := g.Admit(access.With(t.Context(), pass), "submitter", false, nil)
			if err != nil {
				t.Fatal(err)
			}
			asked.Of[func(int)](ctx, asked.Rows)(109)
			return nil
		}
		if err := enter(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(9900 * time.Millisecond)
		if err := enter(); pawl.CodeOf(err) != pawl.CodeLimit {
			t.Errorf("while the rows count: %v", err)
		}
		time.Sleep(300 * time.Millisecond)
		if err := enter(); err != nil {
			t.Error(err)
		}
		for range 100 {
			pass, _ := g.Enter(t.Context(), "token")
			ctx, _ := g.Admit(access.With(t.Context(), pass), "", false, nil)
			asked.Of[func(int)](ctx, asked.Rows)(1000)
		}
		time.Sleep(time.Minute + time.Second)
		if err := enter(); err != nil {
			t.Error(err)
		}
	})
}
