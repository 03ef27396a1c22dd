package loadgen

import "time"

// Report is the result in the words of the contract, for `weir bench --json`.
type Report struct {
	ChecksPerSecond  int64   `json:"checks_per_s"`
	P50              float64 `json:"p50_us"`
	P99              float64 `json:"p99_us"`
	Allowed          int64   `json:"allowed"`
	Denied           int64   `json:"denied"`
	Errors           int64   `json:"errors"`
	RedisCPUPerCheck float64 `json:"redis_cpu_us_per_check"`
	Saturated        Side    `json:"saturated"`
}

// Side is who could do no more.
type Side string

// The sides. Client is this machine, whoever filled it. Neither is what an open
// loop should find: else its rate is too high.
const (
	Client  Side = "client"
	Redis   Side = "redis"
	Neither Side = "neither"
)

// full is the part of what it has, in percent, from which a side counts as
// saturated: no schedule fills the last tenth.
const full = 90

// NewReport says what r and the server's usage meanwhile mean. usage is nil if
// there is no server. cores is how many this machine has, and shared whether the
// server runs on it too.
func NewReport(r *Result, usage *Usage, cores int, shared bool) Report {
	decided := r.Allowed + r.Denied // what failed was not decided, only answered
	report := Report{
		P50: micros(r.Latency.Quantile(500)), P99: micros(r.Latency.Quantile(990)),
		Allowed: r.Allowed, Denied: r.Denied, Errors: r.Failed, Saturated: Neither,
	}
	if r.Elapsed <= 0 {
		return report
	}
	report.ChecksPerSecond = int64(float64(decided) / r.Elapsed.Seconds())
	taken := r.CPU
	if usage != nil {
		report.RedisCPUPerCheck = micros(usage.CPU / time.Duration(max(decided, 1)))
		if 100*usage.Busiest >= full*r.Elapsed {
			report.Saturated = Redis
			return report
		}
		if shared {
			taken += usage.CPU
		}
	}
	if r.Machine >= full || 100*taken >= full*r.Elapsed*time.Duration(cores) {
		report.Saturated = Client
	}
	return report
}

// micros returns d in microseconds, to the hundredth.
func micros(d time.Duration) float64 {
	return float64(d.Round(10*time.Nanosecond)) / float64(time.Microsecond)
}
