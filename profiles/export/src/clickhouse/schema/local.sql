-- The tables of one server. ReplacingMergeTree keeps one row of each key: a batch that is inserted
-- again has the same keys, on the same day, so on the same server it counts once in queries with
-- FINAL, and is stored once when parts have been merged.

CREATE DATABASE IF NOT EXISTS {database};

-- Stacks: the names of functions, the outermost first. A stack has the same number in all batches.
CREATE TABLE IF NOT EXISTS {database}.profiler_stacks{local}
(
    day Date,
    host String,
    stack UInt64,
    frames Array(String)
)
ENGINE = ReplacingMergeTree
PARTITION BY day
ORDER BY (stack)
{ttl}SETTINGS index_granularity = 1024;

-- Samples of one thread within ten seconds. The sample `i` lasted `wall_us[i]`, used `cpu_us[i]` of
-- processor time, and has the stack `stack[i]`. It ended `sum(wall_us[1 .. i])` after `start_us`. All
-- times are microseconds, instants since 1970.
CREATE TABLE IF NOT EXISTS {database}.profiler_samples{local}
(
    day Date,
    service String,
    version String,
    host String,
    session UInt64,
    batch UInt64,
    seq UInt32,
    process String,
    pid String,
    thread String,
    tid UInt64,
    start_us UInt64,
    end_us UInt64,
    sample Nested(stack UInt64, wall_us UInt64, cpu_us UInt64)
)
ENGINE = ReplacingMergeTree
PARTITION BY day
ORDER BY (service, host, session, batch, seq)
{ttl}SETTINGS index_granularity = 128;

-- Markers. `phase` is `interval`, `start`, `end` or `instant`. A start and an end belong together if
-- host, session, pid and span are equal; span is 0 without a number. An unknown time is 0.
CREATE TABLE IF NOT EXISTS {database}.profiler_spans{local}
(
    day Date,
    service String,
    version String,
    host String,
    session UInt64,
    batch UInt64,
    seq UInt32,
    process String,
    pid String,
    thread String,
    tid UInt64,
    name String,
    category String,
    phase String,
    start_ns UInt64,
    end_ns UInt64,
    span UInt64,
    kind String,
    field Nested(key String, value String)
)
ENGINE = ReplacingMergeTree
PARTITION BY day
ORDER BY (service, host, session, batch, seq)
{ttl}SETTINGS index_granularity = 8192;

-- Values of a counter within ten seconds, one per second: `value[i]` at `start_ns + after_ns[i]`.
CREATE TABLE IF NOT EXISTS {database}.profiler_counters{local}
(
    day Date,
    service String,
    version String,
    host String,
    session UInt64,
    batch UInt64,
    seq UInt32,
    process String,
    pid String,
    name String,
    category String,
    unit String,
    start_ns UInt64,
    end_ns UInt64,
    last_value Float64,
    highest_value Float64,
    point Nested(after_ns UInt64, value Float64)
)
ENGINE = ReplacingMergeTree
PARTITION BY day
ORDER BY (service, host, session, batch, seq)
{ttl}SETTINGS index_granularity = 1024;

-- The time that a process spent for a performance group within a batch, and the number of runs.
CREATE TABLE IF NOT EXISTS {database}.profiler_groups{local}
(
    day Date,
    service String,
    version String,
    host String,
    session UInt64,
    batch UInt64,
    seq UInt32,
    process String,
    pid String,
    name String,
    start_ns UInt64,
    end_ns UInt64,
    time_ns UInt64,
    runs UInt64
)
ENGINE = ReplacingMergeTree
PARTITION BY day
ORDER BY (service, host, session, batch, seq)
{ttl}SETTINGS index_granularity = 8192;

-- Processes as the batch found them at `captured_ns`. `ended_ns` is 0 while a process runs.
CREATE TABLE IF NOT EXISTS {database}.profiler_processes{local}
(
    day Date,
    service String,
    version String,
    host String,
    session UInt64,
    batch UInt64,
    seq UInt32,
    process String,
    pid String,
    parent_pid UInt64,
    captured_ns UInt64,
    began_ns UInt64,
    ended_ns UInt64,
    verdict String,
    threads UInt64,
    recorded UInt64,
    delivered UInt64,
    outside UInt64,
    evicted UInt64,
    unfinished UInt64,
    dropped UInt64,
    resident_bytes UInt64,
    drop Nested(reason String, count UInt64)
)
ENGINE = ReplacingMergeTree
PARTITION BY day
ORDER BY (service, host, session, batch, seq)
{ttl}SETTINGS index_granularity = 8192;
