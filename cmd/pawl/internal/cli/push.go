package cli

import (
	"reflect"
	"slices"
	"strings"

	"github.com/pawl-work/pawl/internal/push"
)

// PushConfig says where the items of a type are sent. Its secrets may be any value here, so that no
// error of decoding shows one.
type PushConfig struct {
	URL            string `koanf:"url"`
	Secret         any    `koanf:"secret"`
	Secrets        any    `koanf:"secrets"`
	AllowPrivate   bool   `koanf:"allow_private"`
	TimeoutSeconds int    `koanf:"timeout_seconds"`
}

// Target returns the definition for the pusher of a type.
func (c PushConfig) Target(typ string) (push.Target, error) {
	secrets, err := secretsOf("/push/"+typ, c.Secret, c.Secrets)
	return push.Target{URL: c.URL, Secrets: secrets, AllowPrivate: c.AllowPrivate, TimeoutSeconds: c.TimeoutSeconds}, err
}

// pushMember returns the member that a key of the settings names, such as url of push.TYPE.url. A type
// may have dots. pushed says that the key is one of a target.
func pushMember(key string) (member string, pushed bool) {
	if !strings.HasPrefix(key, "push.") {
		return "", false
	}
	return key[strings.LastIndexByte(key, '.')+1:], true
}

func isPushMember(member string) bool {
	return slices.Contains(KeysOf(reflect.TypeFor[PushConfig](), ""), member)
}
