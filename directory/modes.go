package directory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/weirhq/weir/policy"
)

// Modes that rules are switched to for a while, on all instances:
//
//	weir:modes   hash: rule, or * for all rules not named, to
//	             {"mode":"shadow","until":1767225600000,"by":"ann"}
//
// until is in milliseconds on Redis's clock, so that instances whose clocks differ
// agree on the end. What has ended is passed over by readers, and gone when nobody has
// switched anything for two days: a writer who removed it might remove what somebody
// else has put in its place since.

// Switch puts a rule, or with Rule "" every rule that no other switch names, into
// a mode for a while.
type Switch struct {
	Rule string
	Mode policy.Mode
	Left time.Duration // to its end, more than 0
	By   string        // who did it
}

// Longest is the longest that a switch may last. An emergency that lasts longer
// is a change of the policy.
const Longest = 24 * time.Hour

const everyRule = "*"

type storedSwitch struct {
	Mode  string `json:"mode"`
	Until int64  `json:"until"`
	By    string `json:"by"`
}

// Switches returns those in force. It asks the server each time, for what is
// kept of a hash may be half a second old, and an emergency should not wait.
func (d *Directory) Switches(ctx context.Context) ([]Switch, error) {
	stored, now, err := d.switches(ctx)
	if err != nil {
		return nil, err
	}
	var list []Switch
	for rule, s := range stored {
		if s.Until <= now {
			continue
		}
		mode, ok := policy.ModeNamed(s.Mode)
		if !ok {
			continue // not written by us
		}
		if rule == everyRule {
			rule = ""
		}
		left := time.Duration(min(s.Until-now, Longest.Milliseconds())) * time.Millisecond
		list = append(list, Switch{Rule: rule, Mode: mode, Left: left, By: s.By})
	}
	return list, nil
}

// SetSwitch puts s in force on all instances within a second, in place of the
// one for the same rule. With Left 0 it ends that one.
func (d *Directory) SetSwitch(ctx context.Context, s Switch) error {
	client, err := d.conn.Client()
	if err != nil {
		return err
	}
	field := s.Rule
	if field == "" {
		field = everyRule
	}
	if s.Left <= 0 {
		return d.conn.Came(client.Do(ctx, client.B().Hdel().Key(d.modesKey()).Field(field).Build()).Error())
	}
	now, err := clock(client.Do(ctx, client.B().Time().Build()))
	if err != nil {
		return err
	}
	value, err := json.Marshal(storedSwitch{s.Mode.String(), now + min(s.Left, Longest).Milliseconds(), s.By})
	if err != nil {
		return err
	}
	commands := []rueidis.Completed{
		client.B().Hset().Key(d.modesKey()).FieldValue().FieldValue(field, string(value)).Build(),
		client.B().Pexpire().Key(d.modesKey()).Milliseconds((2 * Longest).Milliseconds()).Build(),
	}
	var faults error
	for _, r := range client.DoMulti(ctx, commands...) {
		faults = errors.Join(faults, d.conn.Came(r.Error()))
	}
	return faults
}

// switches reads what is stored, and Redis's clock in milliseconds.
func (d *Directory) switches(ctx context.Context) (stored map[string]storedSwitch, now int64, err error) {
	client, err := d.conn.Client()
	if err != nil {
		return nil, 0, err
	}
	replies := client.DoMulti(ctx, client.B().Time().Build(), client.B().Hgetall().Key(d.modesKey()).Build())
	now, err = clock(replies[0])
	raw, fault := replies[1].AsStrMap()
	if err := errors.Join(err, fault); err != nil {
		return nil, 0, err
	}
	stored = make(map[string]storedSwitch, len(raw))
	for rule, value := range raw {
		var s storedSwitch
		if json.Unmarshal([]byte(value), &s) == nil { // else it is nobody's switch, and its time is over
			stored[rule] = s
		} else {
			stored[rule] = storedSwitch{}
		}
	}
	return stored, now, nil
}

// clock reads the reply of TIME, in milliseconds.
func clock(r rueidis.RedisResult) (ms int64, err error) {
	words, err := r.AsStrSlice()
	var seconds, micros int64
	if err == nil && len(words) == 2 {
		_, err = fmt.Sscan(words[0]+" "+words[1], &seconds, &micros)
	}
	return seconds*1000 + micros/1000, err
}

func (d *Directory) modesKey() string { return d.prefix + ":modes" }
