package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
)

// curve is a small chart: lines over a common x axis.
type curve struct {
	title, x, y string
	logX        bool
	shaded      [2]float64 // a part of the x axis that is marked
	lines       []plot
}

type plot struct {
	name   string
	points []point
}

type point struct{ x, y float64 }

// These constants are the chart's frame, in pixels.
const (
	chartWide, chartHigh      = 760, 420
	left, right, above, below = 70, 20, 50, 90
)

var colours = []string{"#0b6e4f", "#5aa9e6", "#c1121f", "#f4a259"}

// write writes the chart to a file in a directory.
func (c curve) write(dir, name string) error {
	return os.WriteFile(filepath.Join(dir, name), []byte(c.String()), 0o644)
}

// writeBelow writes charts below each other to one file.
func writeBelow(file string, charts []curve) error {
	var s strings.Builder
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d">`+"\n", chartWide, chartHigh*len(charts))
	for i, c := range charts {
		fmt.Fprintf(&s, `<svg y="%d" width="%d" height="%d">`+"\n%s</svg>\n", i*chartHigh, chartWide, chartHigh, c)
	}
	s.WriteString("</svg>\n")
	return os.WriteFile(file, []byte(s.String()), 0o644)
}

// labelled is how many points of a chart have their x value below them, at most, and a dot.
const labelled = 15

// labels returns the x values that stand below the axis.
func (c curve) labels() (xs []float64) {
	every := (len(c.lines[0].points)-1)/labelled + 1
	for i, p := range c.lines[0].points {
		if (i+1)%every == 0 {
			xs = append(xs, p.x)
		}
	}
	return xs
}

// String returns the chart as SVG. The y axis begins at 0, so that growth looks neither
// steeper nor flatter than it is.
func (c curve) String() string {
	var minX, maxX, maxY = math.Inf(1), math.Inf(-1), 0.0
	for _, l := range c.lines {
		for _, p := range l.points {
			minX, maxX, maxY = min(minX, p.x), max(maxX, p.x), max(maxY, p.y)
		}
	}
	scale := func(v float64) float64 {
		if c.logX {
			return math.Log10(v)
		}
		return v
	}
	if !c.logX {
		minX = 0
	}
	px := func(x float64) float64 {
		return left + (scale(x)-scale(minX))/(scale(maxX)-scale(minX))*(chartWide-left-right)
	}
	top := nice(maxY)
	py := func(y float64) float64 { return chartHigh - below - y/top*(chartHigh-above-below) }

	var s strings.Builder
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", chartWide,
		chartHigh)
	fmt.Fprintf(&s, `<rect width="100%%" height="100%%" fill="white"/><text x="%d" y="26" font-size="15">%s</text>`+"\n", left, c.title)
	for i := range 6 {
		y := top * float64(i) / 5
		fmt.Fprintf(&s, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n",
			left, chartWide-right, py(y), py(y), left-8, py(y)+4, figure(y))
	}
	if c.shaded[1] > c.shaded[0] {
		fmt.Fprintf(&s, `<rect x="%.1f" width="%.1f" y="%d" height="%d" fill="#f4a259" opacity="0.15"/>`+"\n",
			px(c.shaded[0]), px(c.shaded[1])-px(c.shaded[0]), above, chartHigh-above-below)
	}
	for _, x := range c.labels() {
		fmt.Fprintf(&s, `<text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", px(x), chartHigh-below+18, figure(x))
	}
	fmt.Fprintf(&s, `<text x="%d" y="%d" text-anchor="middle">%s</text><text x="16" y="%d" transform="rotate(-90 16 %d)" `+
		`text-anchor="middle">%s</text>`+"\n",
		(left+chartWide-right)/2, chartHigh-below+36, c.x, (above+chartHigh-below)/2, (above+chartHigh-below)/2, c.y)
	for i, l := range c.lines {
		colour := colours[i%len(colours)]
		var path []string
		for _, p := range l.points {
			path = append(path, fmt.Sprintf("%.1f,%.1f", px(p.x), py(p.y)))
		}
		fmt.Fprintf(&s, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(path, " "), colour)
		for _, p := range l.points[:len(l.points)*min(1, labelled/len(l.points))] {
			fmt.Fprintf(&s, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`, px(p.x), py(p.y), colour)
		}
		at := left + i*170
		fmt.Fprintf(&s, `<rect x="%d" y="%d" width="14" height="4" fill="%s"/><text x="%d" y="%d">%s</text>`+"\n", at, chartHigh-24, colour,
			at+20, chartHigh-18, l.name)
	}
	s.WriteString("</svg>\n")
	return s.String()
}

// nice returns a round number that is not below v.
func nice(v float64) float64 {
	if v <= 0 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10} {
		if m*unit >= v {
			return m * unit
		}
	}
	return 10 * unit
}
