package metrics

// Kind is what a metric is to Prometheus.
type Kind string

// The kinds.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// Definition is one metric: what it is called, and what its labels may say.
// Dashboard, alerts and docs/observability.md are made from these.
type Definition struct {
	Name   string
	Kind   Kind
	Help   string
	Labels []string
	// Buckets are the classic buckets of a histogram; each has native ones too.
	Buckets []float64
}

var (
	latencies = []float64{.00001, .000025, .00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1}
	sizes     = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256}
)

// What is known of decisions, told by the observer.
var (
	decisions = Definition{Name: "weir_decisions_total", Kind: Counter, Labels: []string{"rule", "outcome", "source", "door"},
		Help: "Decisions, by the rule that decided, what came of it, who decided and the door. adhoc is the rule of bills that no rule made, other of rules beyond the 1,000th."}
	duration = Definition{Name: "weir_decision_duration_seconds", Kind: Histogram, Buckets: classicBounds(),
		Help: "Time from asking the limiter to its answer."}
	shadows = Definition{Name: "weir_shadow_total", Kind: Counter, Labels: []string{"rule", "outcome"},
		Help: "What rules in shadow mode would have answered. They decide nothing."}
	tries = Definition{Name: "weir_try_total", Kind: Counter, Labels: []string{"rule", "live", "try"},
		Help: "What a rule's limit and the limit on trial beside it answered, each to every request: the two by two of both."}
	failOpen = Definition{Name: "weir_fail_open_active", Kind: Gauge,
		Help: "1 if a request was admitted unchecked in the last 30 seconds, since its limits are open and the store could not be reached."}
)

// What is known of the store.
var (
	storeErrors = Definition{Name: "weir_store_errors_total", Kind: Counter, Labels: []string{"kind"},
		Help: "Bills that the store did not decide, by why. Each got the answer its limits state for that case."}
	storeDuration = Definition{Name: "weir_store_duration_seconds", Kind: Histogram, Buckets: latencies,
		Help: "Time of one call of the store, which decides many bills."}
	batchBills = Definition{Name: "weir_store_batch_bills", Kind: Histogram, Buckets: sizes,
		Help: "Bills in one call of the store."}
	queued = Definition{Name: "weir_store_queue_seconds", Kind: Histogram, Buckets: latencies,
		Help: "How long the bill that waited longest for a call of the store waited for it."}
	breakerOpen = Definition{Name: "weir_store_breaker_open", Kind: Gauge,
		Help: "1 while the store is taken for away, and limits give their stated answers at once."}
	unknown = Definition{Name: "weir_store_unknown_total", Kind: Counter,
		Help: "Bills that ended without the store's answer and may have been charged all the same."}
	clockOffset = Definition{Name: "weir_store_clock_offset_seconds", Kind: Gauge, Labels: []string{"node"},
		Help: "By how much the store's clock is ahead of this machine's; of a cluster, that of the node furthest off."}
	instances = Definition{Name: "weir_instances", Kind: Gauge,
		Help: "Instances alive on this store, this one included."}
	losses = Definition{Name: "weir_store_losses_total", Kind: Counter, Labels: []string{"kind"},
		Help: "Counters that the store was found to have lost: flushed and rolled_back count times, evicted keys; replaced, that another server answers."}
	debtOwed = Definition{Name: "weir_debt_units", Kind: Gauge,
		Help: "Units admitted without the store that are still to be debited there."}
	debtEnded = Definition{Name: "weir_debt_units_total", Kind: Counter, Labels: []string{"outcome"},
		Help: "Units admitted without the store that were settled there afterwards, or dropped."}
)

// What is known of other regions.
var (
	regionsBehind = Definition{Name: "weir_regions_behind_keys", Kind: Gauge,
		Help: "Keys in use here of which another region has not acknowledged the last change."}
	regionsAway = Definition{Name: "weir_regions_cut_off", Kind: Gauge,
		Help: "Regions that have not acknowledged what they should have long ago; what they take is guessed to be as much as here."}
	regionsTold = Definition{Name: "weir_regions_changes_total", Kind: Counter, Labels: []string{"way"},
		Help: "Changed keys told to other regions and heard from them."}
	regionsBytes = Definition{Name: "weir_regions_sent_bytes_total", Kind: Counter,
		Help: "Bytes sent to other regions, without what the protocol adds."}
	regionsGuessed = Definition{Name: "weir_regions_guessed_units_total", Kind: Counter,
		Help: "Units debited for regions that were cut off."}
	regionsLost = Definition{Name: "weir_regions_lost_changes_total", Kind: Counter, Labels: []string{"cause"},
		Help: "Changed keys that were heard and could not be debited here (unread), and debits that were not told, since too many waited to be (forgotten)."}
	regionsTrip = Definition{Name: "weir_regions_trip_seconds", Kind: Gauge,
		Help: "Time from sending to the region that answers last to its acknowledgement."}
	regionsBound = Definition{Name: "weir_regions_overshoot_bound", Kind: Gauge, Labels: []string{"rule"},
		Help: "The most that all regions admit beyond a rule's limit for one key, and once more for each partition."}
)

// What is known of layers and memory.
var (
	denyHits = Definition{Name: "weir_deny_cache_hits_total", Kind: Counter,
		Help: "Refusals answered without the store, since it was known that they stand."}
	leaseUnits = Definition{Name: "weir_lease_units_total", Kind: Counter, Labels: []string{"what"},
		Help: "Units that leases have borrowed from the store, spent here, and given back."}
	leaseOut = Definition{Name: "weir_lease_out_units", Kind: Gauge,
		Help: "Units borrowed from the store and neither spent nor given back."}
	leasePeak = Definition{Name: "weir_lease_overshoot_units", Kind: Gauge,
		Help: "The most units that were out on lease here: what this instance may have admitted over a limit in one window."}
	memoryKeys = Definition{Name: "weir_memory_keys", Kind: Gauge,
		Help: "Balances in this process's memory, idle ones not yet reclaimed included."}
	memoryBytes = Definition{Name: "weir_memory_bytes", Kind: Gauge,
		Help: "Bytes that balances in memory take."}
	memoryEvicted = Definition{Name: "weir_memory_evicted_total", Kind: Counter,
		Help: "Balances in memory that gave way at the bound while not idle."}
	clockSteps = Definition{Name: "weir_clock_steps_total", Kind: Counter,
		Help: "Balances in memory found further ahead of the clock than a clock may be off."}
)

// What is known of the configuration and of observers.
var (
	reloadOK = Definition{Name: "weir_config_last_reload_successful", Kind: Gauge,
		Help: "0 if the policy file was changed and is wrong, so that the one before it is in force."}
	reloadTime = Definition{Name: "weir_config_last_reload_timestamp_seconds", Kind: Gauge,
		Help: "When the policy in force was put there."}
	configInfo = Definition{Name: "weir_config_info", Kind: Gauge, Labels: []string{"version"},
		Help: "1; version is the beginning of the SHA-256 of the policy in force, equal where the policy is."}
	eventsWritten = Definition{Name: "weir_events_written_total", Kind: Counter,
		Help: "Events written to the stream or the file."}
	eventsDropped = Definition{Name: "weir_events_dropped_total", Kind: Counter,
		Help: "Events that were lost: the buffer was full, or the end came before they could be written."}
	logsSuppressed = Definition{Name: "weir_refusals_not_logged_total", Kind: Counter,
		Help: "Refusals that were left out of the log, which takes a few a second."}
	buildInfo = Definition{Name: "weir_build_info", Kind: Gauge, Labels: []string{"version", "goversion"},
		Help: "1; what this is a build of."}
)

// Definitions are all metrics, in the order in which they are described.
var Definitions = []Definition{
	decisions, duration, shadows, tries, failOpen,
	storeErrors, storeDuration, batchBills, queued, breakerOpen, unknown, clockOffset, instances,
	losses, debtOwed, debtEnded, regionsBehind, regionsAway, regionsTold, regionsBytes, regionsGuessed, regionsLost, regionsTrip, regionsBound, denyHits, leaseUnits, leaseOut, leasePeak, memoryKeys, memoryBytes, memoryEvicted, clockSteps,
	reloadOK, reloadTime, configInfo, eventsWritten, eventsDropped, logsSuppressed, buildInfo,
}
