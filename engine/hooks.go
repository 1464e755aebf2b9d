package engine

import (
	"fmt"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
)

func complained(complaints []pawl.Complaint) pawl.Failure {
	return pawl.Failure{Code: "check_failed", Message: complaints[0].Message, Detail: rules.Encode(complaints)}
}

// maxComplaints is how many complaints are stored of a task.
const maxComplaints = 100

// allComplaints is complained for the complaints of a hook. If they do not fit, the last one says how many are left out.
func allComplaints(all []pawl.Complaint) pawl.Failure {
	return fitting(func(most int) pawl.Failure {
		n := min(len(all), maxComplaints, max(1, most/64))
		some := make([]pawl.Complaint, n, n+1)
		for i, c := range all[:n] {
			some[i] = pawl.Complaint{Code: stored(c.Code, most), Message: stored(c.Message, most), Field: stored(c.Field, most)}
		}
		if n < len(all) {
			some = append(some, pawl.Complaint{Code: "more_complaints", Message: fmt.Sprintf("%d complaints are not shown", len(all)-n)})
		}
		return complained(some)
	})
}

// hookFailure returns the failure that of makes of the text of a hook's error.
func hookFailure(err error, of func(text string) pawl.Failure) pawl.Failure {
	return fitting(func(most int) pawl.Failure { return of(stored(err.Error(), most)) })
}

// fitting returns the first failure of texts of at most so many bytes that is within the bound of the table of limits.
func fitting(of func(most int) pawl.Failure) pawl.Failure {
	for most := pawl.MaxErrorBytes / 2; ; most /= 2 {
		if f := of(most); len(rules.Encode(f)) <= pawl.MaxErrorBytes {
			return f
		}
	}
}

// stored is a text of a hook as it is stored: without what PostgreSQL does not keep, and cut.
func stored(text string, most int) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\x00", "\ufffd")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
