package mcp_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/pawltest"
)

// An agent lists the namespaces, page by page; a key of one namespace is not offered the tool, and refused.
func TestNamespacesAreListed(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		g := guard(t, p, access.Options{})
		for n := range pawl.DefaultPage + 1 {
			_, err := pawl.Create(pawl.As(t.Context(), pawl.Caller{Namespace: fmt.Sprint("acme-", n)}), g.p.Service, pawl.NewTask{Type: "a"})
			if err != nil {
				t.Fatal(err)
			}
		}
		all, one := g.as(pawl.NewAPIKey{Namespace: pawl.AnyNamespace, Roles: []string{"reader"}}), g.holds("reader")
		first := all.must("work_namespaces", args{}).Result.StructuredContent
		rest := all.must("work_namespaces", args{"cursor": first.Next}).Result.StructuredContent
		if len(first.Items) != pawl.DefaultPage || len(rest.Items) != 1 || first.Next == nil || rest.Next != nil {
			t.Errorf("the pages are %+v and %+v", first, rest)
		}
		if r := one.call("work_namespaces", args{}); r.Result.StructuredContent.Problem.Code != pawl.CodeForbidden {
			t.Errorf("of one namespace: %+v", r)
		}
		if !slices.Contains(all.tools(), "work_namespaces") || slices.Contains(one.tools(), "work_namespaces") {
			t.Errorf("offered: %v and %v", all.tools(), one.tools())
		}
	})
}
