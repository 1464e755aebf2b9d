package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

const (
	deadlock      = "40P01"
	serialization = "40001"
	rolledBack    = "40" // the class of both
	lockTimeout   = "55P03"
	notANumber    = "22P02" // the error that a claim raises for a large row; see hot/claim.sql
	readOnly      = "25006"
	unsupported   = "0A000" // BEGIN READ WRITE on a server in recovery; also a plan of a table that has changed
	canceled      = "57014"
	notNull       = "23502"
)

// meaning is what a SQLSTATE means for a caller.
type meaning struct {
	code    pawl.Code
	message string
}

// verdicts are looked up by the whole SQLSTATE, then by its class. Any other SQLSTATE is a
// mistake in Pawl.
var verdicts = map[string]meaning{
	"08":        {pawl.CodeUnavailable, "the connection to the database failed"},
	"53":        {pawl.CodeUnavailable, "the database is out of resources"},
	"53100":     {pawl.CodeUnavailable, "the disk under the database is full"},
	"53300":     {pawl.CodeUnavailable, "the database has no connection left"},
	"55P03":     {pawl.CodeUnavailable, "another transaction locks what the call needs; try again"},
	canceled:    {pawl.CodeUnavailable, "the database did not carry the call out in time"},
	"57":        {pawl.CodeUnavailable, "the database ended the call"},
	"58":        {pawl.CodeUnavailable, "the disk under the database does not answer"},
	readOnly:    {pawl.CodeUnavailable, "the database is read-only"},
	unsupported: {pawl.CodeUnavailable, "the database is in recovery, or a table has just changed"},
	"55000":     {pawl.CodeUnavailable, "the database cannot carry the call out in its present state"},
	"55006":     {pawl.CodeUnavailable, "another session uses what the call needs"},
	"72000":     {pawl.CodeUnavailable, "the snapshot of the call is too old"},
	"25P04":     {pawl.CodeUnavailable, "the transaction took too long"},
	"25P03":     {pawl.CodeUnavailable, "the transaction was idle for too long"},
	"26000":     {pawl.CodeUnavailable, useTransactions},
	"42P05":     {pawl.CodeUnavailable, useTransactions},
	"28":        {pawl.CodeUnavailable, "the database refused the login"},
	"3D":        {pawl.CodeUnavailable, "there is no such database"},
	"42501":     {pawl.CodeUnavailable, "the login lacks a right in the database"},
	rolledBack:  {pawl.CodeUnavailable, "the transaction lost to others again and again"},
	"22021":     {pawl.CodeInvalid, "a text holds a character the database cannot keep"},
	"22P05":     {pawl.CodeInvalid, "a text holds a character the database cannot keep"},
	"23":        {pawl.CodeInternal, "the database refused the change"},
	fenced:      {pawl.CodeUnavailable, "what the call changes is being moved to another database"},
	"23505":     {pawl.CodeConflict, "there is one already"},
}

// classify converts an error of the driver to a *pawl.Error, by its SQLSTATE. A cancelled
// call stays context.Canceled.
func classify(err error) error {
	if err == nil {
		return nil // before the targets of errors.As, which are allocated
	}
	var known *pawl.Error
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &known):
		return err
	case errors.Is(err, context.Canceled):
		return context.Canceled
	case errors.As(err, &pg):
		v, found := verdicts[pg.Code]
		if !found {
			v, found = verdicts[pg.Code[:min(2, len(pg.Code))]]
		}
		if !found {
			v = meaning{code: pawl.CodeInternal}
		}
		if unknownName(pg) {
			v = verdicts[rolledBack]
		}
		if pg.Code == lockTimeout {
			err = fmt.Errorf("%w: %w", store.ErrLocked, err)
		}
		if pg.Code == fenced {
			err = fmt.Errorf("%w: %w", store.ErrFenced, err)
		}
		if strings.HasPrefix(pg.Code, rolledBack) || unknownName(pg) {
			err = fmt.Errorf("%w: %w", store.ErrRolledBack, err)
		}
		if pg.Code == notANumber {
			err = fmt.Errorf("%w: %w", store.ErrLarge, err)
		}
		if strings.HasPrefix(pg.Code, "08") || strings.HasPrefix(pg.Code, "57P") { // 57P: the server ends the session, or accepts none
			err = fmt.Errorf("%w: %w", store.ErrLost, err)
		} else if v.code == pawl.CodeUnavailable && !ofOneCall(pg) {
			err = fmt.Errorf("%w: %w", store.ErrDown, err)
		}
		e := &pawl.Error{Code: v.code, Message: v.message, Err: store.Undone{Err: err}}
		if e.Code == pawl.CodeConflict {
			e.Allowed = []string{}
		}
		return e
	case errors.Is(err, context.DeadlineExceeded):
		return &pawl.Error{Code: pawl.CodeUnavailable, Message: "the database did not answer in time", Err: err}
	case errors.Is(err, puddle.ErrClosedPool):
		return &pawl.Error{Code: pawl.CodeUnavailable, Message: "the database is closed", Err: err}
	case lostConnection(err):
		err = fmt.Errorf("%w: %w", store.ErrLost, err)
		return &pawl.Error{Code: pawl.CodeUnavailable, Message: "the database does not answer", Err: err}
	}
	return &pawl.Error{Code: pawl.CodeInternal, Err: err}
}

// ofOneCall reports whether a SQLSTATE that means unavailable is about one transaction: others may
// succeed at the same time.
func ofOneCall(pg *pgconn.PgError) bool {
	switch pg.Code {
	case lockTimeout, fenced, canceled, "25P03", "25P04", "55006", "72000":
		return true
	}
	return strings.HasPrefix(pg.Code, rolledBack) || unknownName(pg)
}

// inRecovery reports whether a server refused a change because it is not the primary, or not any
// more.
func inRecovery(pg *pgconn.PgError) bool { return pg.Code == readOnly || pg.Code == unsupported }

func lostConnection(err error) bool {
	var network net.Error
	var connect *pgconn.ConnectError
	return errors.As(err, &network) || errors.As(err, &connect) || pgconn.SafeToRetry(err) || pgconn.Timeout(err) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, pgx.ErrTxClosed)
}
