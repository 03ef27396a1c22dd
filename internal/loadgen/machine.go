package loadgen

import (
	"os"
	"strconv"
	"strings"
)

// machine is how much of this machine's time was used, by whomever, in ticks over
// all cores since it started. The kernel's own work for a load, on the network
// say, is in no process's account, and other programs may have taken the rest;
// only the machine as a whole says that there was no more to be had.
type machine struct{ idle, all int64 }

// readMachine returns nothing where the system does not tell.
func readMachine() machine {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return machine{}
	}
	return parseMachine(string(stat))
}

// parseMachine reads the first line: "cpu user nice system idle iowait irq …".
func parseMachine(stat string) (m machine) {
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	if len(fields) < 6 || fields[0] != "cpu" {
		return machine{}
	}
	for i, field := range fields[1:min(len(fields), 9)] { // what follows, of guests, is in user already
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return machine{}
		}
		m.all += n
		if i == 3 || i == 4 {
			m.idle += n
		}
	}
	return m
}

// busySince returns how much of the time since before was used, in percent, or 0
// if that cannot be told.
func (m machine) busySince(before machine) int {
	all := m.all - before.all
	if all <= 0 {
		return 0
	}
	return int(100 - 100*(m.idle-before.idle)/all)
}
