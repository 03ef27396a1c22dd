package daemon

import (
	"testing"

	"github.com/weirhq/weir/gate"
	"github.com/weirhq/weir/policy"
)

// TestAnOldReadingOfSwitches: a reading that began before a switch and is done after the
// switch has been read back does not take it away again.
func TestAnOldReadingOfSwitches(t *testing.T) {
	m := &modes{}
	switched := []held{{gate.ModeSwitch{Rule: "r", Mode: policy.Shadow}, "me"}}
	old, fresh := m.ask(), m.ask()
	m.take(fresh, switched)
	m.take(old, nil)
	if len(m.shared) != 1 {
		t.Error("the switch is gone")
	}
	m.take(m.ask(), nil)
	if len(m.shared) != 0 {
		t.Error("a switch that has ended stays")
	}
}
