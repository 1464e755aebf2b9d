package dashboard

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/internal/clock"
)

// session is the content of the session cookie, encrypted.
type session struct {
	ID  string `json:"id"`
	Key string `json:"key,omitempty"` // the API key
	// Who logged in at the identity provider, with the roles of then; nil = the holder of Key.
	Who *access.Principal `json:"who,omitempty"`

	Begun time.Time `json:"begun"`
	Seen  time.Time `json:"seen"` // the last request that a user made
}

// renewAfter is the age of Seen at which the cookie is renewed.
const renewAfter = 5 * time.Second

// checkAfter is how often the database is asked whether a session was ended on another server.
const checkAfter = time.Minute

// logout is the kind of mark that ends a session.
const logout = "logout"

var errEnded = &pawl.Error{Code: pawl.CodeUnauthenticated, Message: "your session has ended; log in again"}

// sessions encrypts and checks sessions. Servers with the same secret accept each
// other's sessions.
type sessions struct {
	aead         cipher.AEAD
	idle, length time.Duration
	now          func() time.Time

	mu    sync.Mutex
	ended map[string]time.Time // by the id of a session, or the state of a login: when it would end
	known map[string]time.Time // by the id of a session: when the database was asked whether it was ended
}

// newSessions panics if the secret is not 32 bytes long; nil = a random one.
func newSessions(secret []byte, idle, length time.Duration) *sessions {
	if secret == nil {
		secret = make([]byte, 32)
		_, _ = rand.Read(secret) // never fails
	}
	block, err := aes.NewCipher(secret)
	if err != nil {
		panic("dashboard: Options.Secret: " + err.Error())
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic("dashboard: " + err.Error())
	}
	return &sessions{aead: aead, idle: idle, length: length, now: clock.Now,
		ended: map[string]time.Time{}, known: map[string]time.Time{}}
}

var sessionContext = []byte("pawl dashboard session 1")

func (s *sessions) begin(key string) session {
	now := s.now()
	return session{ID: rand.Text(), Key: key, Begun: now, Seen: now}
}

// beginAs begins the session of a principal, which expires with it.
func (s *sessions) beginAs(who access.Principal) session {
	of := s.begin("")
	who.Expires = of.Begun.Add(s.length)
	of.Who = &who
	return of
}

// seal encrypts a session into a cookie's value.
func (s *sessions) seal(of session) string { return s.sealAs(of, sessionContext) }

// sealAs encrypts a value for one use; openAs decrypts it for the same one only.
func (s *sessions) sealAs(v any, use []byte) string {
	text, _ := json.Marshal(v) // texts and times always marshal
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, text, use))
}

func (s *sessions) openAs(value string, use []byte, v any) bool {
	sealed, err := base64.RawURLEncoding.DecodeString(value)
	if err != nil {
		return false
	}
	text, err := s.aead.Open(nil, nil, sealed, use)
	return err == nil && json.Unmarshal(text, v) == nil
}

// open decrypts a cookie's value. A session that has ended is an error. A value that
// was not sealed with this secret is the zero session.
func (s *sessions) open(value string) (of session, err error) {
	if !s.openAs(value, sessionContext, &of) {
		return session{}, nil
	}
	now := s.now()
	s.mu.Lock()
	_, loggedOut := s.ended[of.ID]
	s.mu.Unlock()
	if loggedOut || now.Sub(of.Seen) >= s.idle || now.Sub(of.Begun) >= s.length {
		return session{}, errEnded
	}
	return of, nil
}

// renew updates Seen and reports whether the cookie is due for renewal.
func (s *sessions) renew(of session) (session, bool) {
	now := s.now()
	due := now.Sub(of.Seen) >= min(renewAfter, s.idle/4)
	of.Seen = now
	return of, due
}

// toCheck reports whether the database is to be asked about a session, and notes that it is.
func (s *sessions) toCheck(of session) bool {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, asked := s.known[of.ID]; asked && now.Sub(at) < checkAfter {
		return false
	}
	for id, at := range s.known {
		if now.Sub(at) >= checkAfter {
			delete(s.known, id)
		}
	}
	s.known[of.ID] = now
	return true
}

// forget undoes toCheck.
func (s *sessions) forget(of session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, of.ID)
}

// end ends a session on this server.
func (s *sessions) end(of session) { s.endOnce(of.ID, of.Begun.Add(s.length)) }

// endOnce marks an id as over, and reports whether it was not before. It is forgotten after a
// time at which it is over in any case.
func (s *sessions) endOnce(id string, until time.Time) bool {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for old, end := range s.ended {
		if now.After(end) {
			delete(s.ended, old)
		}
	}
	_, before := s.ended[id]
	s.ended[id] = until
	return !before
}
