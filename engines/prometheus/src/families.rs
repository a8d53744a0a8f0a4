//! The metrics: names, types, units and help texts, in the order in which they are written.
//!
//! Used by [`super::metrics`]. `docs/prometheus.md` lists the same metrics; the test
//! `metrics_documents` compares them.

use super::exposition::{MetricFamily, MetricKind};

macro_rules! families {
    ($($constant:ident = $kind:ident $name:literal ($unit:expr): $help:literal;)*) => {
        $(
            pub(super) const $constant: MetricFamily = MetricFamily {
                name: $name,
                kind: MetricKind::$kind,
                unit: $unit,
                help: $help,
            };
        )*
    };
}

const BYTES: Option<&str> = Some("bytes");
const SECONDS: Option<&str> = Some("seconds");

families! {
    SESSION = Info "profiler_session" (None):
        "The version of the profiler.";
    SESSION_START = Gauge "profiler_session_start_time_seconds" (SECONDS):
        "When the session started, since the Unix epoch. All counters begin at zero then.";
    LIMIT = Gauge "profiler_memory_limit_bytes" (BYTES):
        "The limit on the memory of all pools together.";
    USED = Gauge "profiler_memory_used_bytes" (BYTES):
        "What all pools occupy.";
    CHARGED = Gauge "profiler_memory_charged_bytes" (BYTES):
        "What all pools may occupy at present. More than the limit only until processes have freed \
         what a lowered limit takes.";
    PEAK = Gauge "profiler_memory_charged_peak_bytes" (BYTES):
        "The most that all pools were allowed to occupy at any time.";
    PROCESSES = Gauge "profiler_processes" (None):
        "Processes by state. Ended processes are counted while data of them is kept.";
    STARTS = Counter "profiler_process_starts" (None):
        "Processes that have connected or ended. A process that is started again counts again.";
    ENDS = Counter "profiler_process_ends" (None):
        "Processes that have ended, by the way in which they ended.";
    POOL = Gauge "profiler_pool_bytes" (BYTES):
        "What the pools of the processes of this name occupy.";
    ALLOWANCE = Gauge "profiler_pool_allowance_bytes" (BYTES):
        "What the pools of the processes of this name may occupy.";
    OWED = Gauge "profiler_pool_owed_bytes" (BYTES):
        "What processes were asked to free and have not freed. A stopped process frees nothing.";
    EXCESS = Gauge "profiler_pool_excess_bytes" (BYTES):
        "What pools occupy beyond all that their processes were ever granted. Zero unless a \
         process writes into its pool without the profiler.";
    RECORDED = Counter "profiler_entries_recorded" (None):
        "Entries that processes have recorded, including lost ones.";
    LOST = Counter "profiler_entries_lost" (None):
        "Entries that are lost, by the reason.";
    LEFT_OUT = Gauge "profiler_groups_left_out" (None):
        "Groups that processes had no room for. They have no other metrics.";
    ENTRIES = Counter "profiler_group_entries" (None):
        "Entries into the group from outside.";
    RUNS = Histogram "profiler_group_run_duration_seconds" (SECONDS):
        "Timed runs of the group by their duration, and the time in it.";
    CPU = Counter "profiler_group_cpu_seconds" (SECONDS):
        "Processor time in the group.";
    MEASURED = Counter "profiler_group_cpu_measured_seconds" (SECONDS):
        "Time in the group whose processor time is known. The part that is not processor time was \
         spent waiting.";
    BLOCKING = Counter "profiler_group_blocking_seconds" (SECONDS):
        "Time in the group spent in blocking calls.";
    GROUPS_IN_OTHER = Gauge "profiler_groups_in_other" (None):
        "Groups that are counted in the series with the label other at this reading.";
    UNREAD = Gauge "profiler_group_processes_unread" (None):
        "Recording processes whose groups could not be read. Their counters stay as they were.";
    PUSH_CAPTURED = Counter "profiler_push_entries_captured" (None):
        "Entries in the batches of pushers.";
    PUSH_MISSED = Counter "profiler_push_entries_missed" (None):
        "Entries that were evicted before a batch contained them.";
    PUSH_CAPTURES_FAILED = Counter "profiler_push_captures_failed" (None):
        "Captures for batches that have failed. The next batch contains their entries.";
    PUSH_SPOOL = Gauge "profiler_push_spool_bytes" (BYTES):
        "What the batches in the spools occupy.";
    PUSH_BATCHES = Counter "profiler_push_batches" (None):
        "Batches that no longer wait, by what has become of them.";
    PUSH_ENTRIES = Counter "profiler_push_entries" (None):
        "Entries in batches that no longer wait, by what has become of the batches.";
    PUSH_WAITING = Gauge "profiler_push_batches_waiting" (None):
        "Batches in the spools that wait for the destination.";
    PUSH_REQUESTS = Counter "profiler_push_requests" (None):
        "Requests to the destination, including repeated ones.";
    PUSH_REQUESTS_FAILED = Counter "profiler_push_requests_failed" (None):
        "Requests to the destination without success.";
    PUSH_BODIES = Counter "profiler_push_body_bytes" (BYTES):
        "Bodies that the destination has accepted, before compression.";
    PUSH_SENT = Counter "profiler_push_sent_bytes" (BYTES):
        "Bodies that the destination has accepted, as they were sent.";
    SCRAPES = Counter "profiler_scrapes" (None):
        "Readings of these metrics, including those that used the numbers of an earlier one.";
    READINGS = Counter "profiler_scrape_pool_readings" (None):
        "Readings of these metrics for which all pools were read.";
    SCRAPE_TIME = Counter "profiler_scrape_seconds" (SECONDS):
        "Time spent reading pools and writing texts, without the writing of this text.";
}
