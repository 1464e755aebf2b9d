package ticks

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/cronexpr"
)

// cron is a cron expression in a time zone. The library computes the times of a clock on the
// wall, in UTC, which has no daylight saving. This type finds the moments at which a clock of
// the zone shows them:
//
//   - A time that is skipped counts as the first moment after the gap.
//   - Of a time that comes twice, the first counts.
//   - If the expression has all hours of the day, each moment at which the clock shows one of
//     its times counts, and no other, so that no hour is left out.
type cron struct {
	wall   *cronexpr.Expression
	zone   *time.Location
	hourly bool // it has all hours of the day
}

// parse reads an expression of five fields, of six with seconds first, or a name such as
// @daily.
func parse(text string, zone *time.Location) (*cron, error) {
	fields := strings.Fields(text)
	if len(fields) == 1 && strings.HasPrefix(fields[0], "@") {
		named, ok := map[string]string{"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
			"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *"}[fields[0]]
		if !ok {
			return nil, fmt.Errorf("is %q; the names are @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly", text)
		}
		fields = strings.Fields(named)
	}
	switch len(fields) {
	case 5:
		fields = append([]string{"0"}, fields...)
	case 6:
	default:
		return nil, fmt.Errorf("has %d fields; there are five (minute, hour, day of month, month, day of week), or six with seconds first",
			len(fields))
	}
	fields[5] = weekdays(fields[5])
	if err := forward(fields); err != nil {
		return nil, err
	}
	wall, err := cronexpr.Parse(strings.Join(fields, " ") + " *")
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %v", err)
	}
	c := &cron{wall: wall, zone: zone}
	if c.hourly, err = allHours(fields[2]); err != nil {
		return nil, err
	}
	return c, nil
}

var numbers = regexp.MustCompile(`(\d+)-(\d+)`)

// forward refuses ranges that end before they begin: the library would read them as nothing.
func forward(fields []string) error {
	for i, f := range fields {
		f = strings.ToLower(f)
		if i == 4 {
			f = monthNumbers.Replace(f)
		}
		for _, m := range numbers.FindAllStringSubmatch(f, -1) {
			low, err1 := strconv.Atoi(m[1])
			high, err2 := strconv.Atoi(m[2])
			if err1 != nil || err2 != nil || low > high {
				return fmt.Errorf("has the range %s, which ends before it begins", m[0])
			}
		}
	}
	return nil
}

var (
	monthNumbers = numbersOf(1, "january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
		"november", "december")
	dayNumbers = numbersOf(0, "sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
)

// numbersOf replaces names, and their first three letters, by numbers from first on.
func numbersOf(first int, names ...string) *strings.Replacer {
	var pairs []string
	for _, short := range []bool{false, true} { // the earlier pair wins
		for n, name := range names {
			if short {
				name = name[:3]
			}
			pairs = append(pairs, name, strconv.Itoa(first+n))
		}
	}
	return strings.NewReplacer(pairs...)
}

var (
	dayRange = regexp.MustCompile(`^0?([0-7])-0?([0-7])(?:/0?([1-6]))?$`)
	oneDay   = regexp.MustCompile(`^0?([0-7])([/l#].*)?$`)
)

// weekdays writes a field of days of the week with numbers from 0 to 6, and its ranges as lists:
// the library takes 7 for 0, also at the end of a range. A range may go over the end of the
// week. What it cannot read, it leaves to the library.
func weekdays(field string) string {
	list := strings.Split(field, ",")
	for i, entry := range list {
		entry = dayNumbers.Replace(strings.ToLower(entry))
		if m := dayRange.FindStringSubmatch(entry); m != nil {
			list[i] = days(int(m[1][0]-'0'), int(m[2][0]-'0'), m[3])
		} else if m := oneDay.FindStringSubmatch(entry); m != nil {
			list[i] = strconv.Itoa(int(m[1][0]-'0')%7) + m[2]
		}
	}
	return strings.Join(list, ",")
}

// days lists the days of a range. step "" = each.
func days(first, last int, step string) string {
	every := 1
	if step != "" {
		every = int(step[0] - '0')
	}
	if last < first {
		last += 7
	}
	var out []string
	for n := first; n <= last; n += every {
		out = append(out, strconv.Itoa(n%7))
	}
	return strings.Join(out, ",")
}

// allHours reports whether a field of hours has all of them.
func allHours(field string) (bool, error) {
	if field == "*" || field == "?" {
		return true, nil
	}
	if !strings.ContainsAny(field, "*-/,") {
		return false, nil
	}
	hours, err := cronexpr.Parse("0 0 " + field + " * * * *")
	if err != nil {
		return false, errors.New("has an hour that cannot be read")
	}
	day := time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC).Add(-time.Second)
	for n := range 24 {
		if day = hours.Next(day); day.Day() != 1 || day.Hour() != n {
			return false, nil
		}
	}
	return true, nil
}

// wallOf returns what a clock on the wall shows at a moment, as if that were UTC.
func wallOf(t time.Time, offset int) time.Time {
	return t.Add(time.Duration(offset) * time.Second).UTC()
}

// offsetAt is the offset of the zone from UTC at a moment, in seconds.
func (c *cron) offsetAt(t time.Time) int {
	_, offset := t.In(c.zone).Zone()
	return offset
}

// bounds returns the begin and the end of the period of one offset that a moment is in. Beyond
// the last change that the data of a zone list, Go lets a period end after the 365th day of the
// year. On the 366th day that end is not after the moment: the period goes on until the year ends.
func bounds(t time.Time) (start, end time.Time) {
	start, end = t.ZoneBounds()
	if !end.IsZero() && !end.After(t) {
		const day = 24 * time.Hour
		end = t.Truncate(day).Add(day)
	}
	return start, end
}

// next returns the first moment after a time, or the zero time. It goes through the periods
// between two changes of the zone's offset.
func (c *cron) next(after time.Time) time.Time {
	t := after.In(c.zone)
	offset := c.offsetAt(t)
	from := wallOf(t, offset) // the time on the wall after which a tick is searched for
	for {
		start, end := bounds(t)
		if !c.hourly && !start.IsZero() {
			// What the clock shows a second time at the beginning of the period does not count.
			if again := wallOf(start, c.offsetAt(start.Add(-1))).Add(-1); again.After(from) && c.offsetAt(start.Add(-1)) > offset {
				from = again
			}
		}
		wall := c.wall.Next(from)
		if wall.IsZero() {
			return time.Time{}
		}
		moment := wall.Add(-time.Duration(offset) * time.Second)
		if end.IsZero() || moment.Before(end) {
			return moment
		}
		offset = c.offsetAt(end)
		shown := wallOf(end, offset)
		if wall.Before(shown) && !c.hourly {
			return end.UTC() // it is skipped
		}
		t, from = end, shown.Add(-1)
	}
}
