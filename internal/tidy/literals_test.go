package tidy

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const placeInRow = "a place in a row of @each"

// numbersInSQL lists the numbers above 2 that SQL texts may hold, with their meaning. None is
// a limit, a default or a time of the root's tables: those are parameters.
var numbersInSQL = map[string]map[int]string{
	"store/check.sql":                        {20: "findings of quick_check, which takes no parameter"},
	"sweep/deadline.sql":                     {1_000_000: "microseconds of a second"},
	"engine/internal/schedules/schedule.sql": {3: placeInRow, 4: placeInRow, 5: placeInRow, 6: placeInRow, 7: placeInRow, 8: placeInRow},
	"store/update.sql":                       {3: placeInRow},
	"store/sweep.sql":                        {1_000_000: "microseconds of a second"},
	"store/postgres/feed.sql":                {8: "hex digits of a timeline", 32: "bits of a timeline"},
	"store/postgres/hot/beat.sql":            {1_000_000: "microseconds of a second"},
	"store/postgres/hot/claim.sql":           {1_000_000: "microseconds of a second"},
	"store/postgres/hot/expire.sql":          {1_000_000: "microseconds of a second"},
	"store/postgres/hot/touch.sql":           {1_000_000: "microseconds of a second"},
}

var (
	notNumbers = regexp.MustCompile(`--.*|'[^']*'|[$?]\d+|\w*[A-Za-z_]\w*`)
	number     = regexp.MustCompile(`\d+`)
)

// The limits, delays and ranks of the root are parameters of SQL texts or expanded into
// them, never repeated.
func TestSQLHasNoLimits(t *testing.T) {
	seen := map[string]map[int]bool{}
	each(t, func(f *file) bool {
		return strings.HasSuffix(f.path, ".sql") && f.under(sqlRooms...) && !strings.Contains(f.path, "/migrations/")
	}, func(f *file) {
		seen[f.path] = map[int]bool{}
		for i, text := range strings.Split(f.text, "\n") {
			for _, digits := range number.FindAllString(notNumbers.ReplaceAllString(text, " "), -1) {
				n, err := strconv.Atoi(digits)
				if err == nil && n <= 2 {
					continue
				}
				if seen[f.path][n] = true; numbersInSQL[f.path][n] == "" {
					t.Errorf("%s:%d: %s in SQL: make it a parameter", f.path, i+1, digits)
				}
			}
		}
	})
	for path, numbers := range numbersInSQL {
		for n := range numbers {
			if !seen[path][n] {
				t.Errorf("%s: %d is excused and not there", path, n)
			}
		}
	}
}
