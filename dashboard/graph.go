package dashboard

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/pawl-work/pawl"
)

// The bounds and sizes of a graph, in pixels.
const (
	maxNodes                                  = 80
	nodeWidth, nodeHeight, nodeAside, nodeGap = 170, 30, 56, 12
)

// graph is which items of a task come after which, and its children with theirs. What comes later is on the right.
type graph struct {
	Nodes         []*node
	Edges         []edge
	Width, Height int
	Left          int // nodes that are not drawn
}

// node is an item or a task of a graph.
type node struct {
	Label, State, Kind, Link string
	X, Y                     int
	at                       int // its column, from 1; 0 = not known yet
	before                   []*node
}

// edge goes from a node to one that comes after it.
type edge struct{ from, to *node }

// Path is the line of an edge.
func (e edge) Path() string {
	x, y, to := e.from.X+nodeWidth, e.from.Y+nodeHeight/2, e.to.Y+nodeHeight/2
	return fmt.Sprintf("M%d %dC%d %d %d %d %d %d", x, y, x+nodeAside/2, y, e.to.X-nodeAside/2, to, e.to.X, to)
}

// TextY is where the label of a node is.
func (n *node) TextY() int { return n.Y + nodeHeight/2 + 4 }

// TextX is where the label of a node begins.
func (n *node) TextX() int { return n.X + 10 }

// graphOf draws a task; nil = nothing in it comes after anything else.
func graphOf(t pawl.Task, items []pawl.Item, children *tree) *graph {
	g, known, after := &graph{}, map[string]*node{}, map[*node][]string{}
	add := func(key string, n *node, before ...string) {
		if len(g.Nodes) == maxNodes {
			g.Left++
			return
		}
		known[key], after[n] = n, before
		g.Nodes = append(g.Nodes, n)
	}
	task := func(t pawl.Task, before string) {
		add("task "+t.ID, &node{Label: cmp.Or(t.Title, t.Type), State: string(t.State), Kind: "task", Link: "/ui/tasks/" + escape(t.ID)}, before)
	}
	if slices.ContainsFunc(items, func(it pawl.Item) bool { return len(it.After) > 0 }) {
		for _, it := range items {
			before := slices.Clone(it.After)
			for i := range before {
				before[i] = "item " + before[i]
			}
			n := &node{Label: cmp.Or(it.Key, it.ID), State: string(it.State), Kind: "item", Link: "/ui/items/" + escape(it.ID)}
			add("item "+it.Key, n, before...)
		}
	}
	if children != nil && len(children.Tasks) > 0 {
		task(t, "")
		for _, c := range children.Tasks {
			task(c.Task, "task "+c.ParentID)
		}
	}
	for _, n := range g.Nodes {
		for _, key := range after[n] {
			if b := known[key]; b != nil {
				n.before = append(n.before, b)
				g.Edges = append(g.Edges, edge{b, n})
			}
		}
	}
	if len(g.Edges) == 0 {
		return nil
	}
	g.place()
	return g
}

// column is the place of a node from the left: one after the last of those before it. There are no circles.
func (n *node) column() int {
	if n.at == 0 {
		n.at = 1
		for _, b := range n.before {
			n.at = max(n.at, b.column()+2)
		}
	}
	return n.at - 1
}

// place puts each node into its column, near those that it comes after.
func (g *graph) place() {
	columns := map[int][]*node{}
	for _, n := range g.Nodes {
		columns[n.column()] = append(columns[n.column()], n)
	}
	for at := range len(columns) {
		slices.SortStableFunc(columns[at], func(a, b *node) int { return cmp.Compare(a.middle(), b.middle()) })
		for i, n := range columns[at] {
			n.X, n.Y = at*(nodeWidth+nodeAside), i*(nodeHeight+nodeGap)
			g.Width, g.Height = max(g.Width, n.X+nodeWidth), max(g.Height, n.Y+nodeHeight)
		}
	}
}

// middle is the mean height of the nodes that a node comes after.
func (n *node) middle() (y int) {
	for _, b := range n.before {
		y += b.Y
	}
	return y / max(1, len(n.before))
}
