package cli

import (
	"reflect"
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/push"
)

// PushConfig says where the items of a type are sent. The secret may be any value here, so that no
// error of decoding shows it.
type PushConfig struct {
	URL            string `koanf:"url"`
	Secret         any    `koanf:"secret"`
	AllowPrivate   bool   `koanf:"allow_private"`
	TimeoutSeconds int    `koanf:"timeout_seconds"`
}

// Target returns the definition for the pusher of a type.
func (c PushConfig) Target(typ string) (push.Target, error) {
	secret, text := c.Secret.(string)
	if c.Secret != nil && !text {
		return push.Target{}, pawl.Invalid("/push/"+typ+"/secret", "must be a text")
	}
	return push.Target{URL: c.URL, Secret: secret, AllowPrivate: c.AllowPrivate, TimeoutSeconds: c.TimeoutSeconds}, nil
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
