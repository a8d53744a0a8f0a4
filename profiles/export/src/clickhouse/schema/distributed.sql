-- The tables over all servers of a cluster, on each server through which rows are inserted or queried.
-- All rows of a host are on one server, so the two halves of a span, and a batch that is inserted
-- again, are on the same one.

CREATE TABLE IF NOT EXISTS {database}.profiler_stacks
AS {database}.profiler_stacks_local
ENGINE = Distributed({cluster}, {database}, profiler_stacks_local, cityHash64(host));

CREATE TABLE IF NOT EXISTS {database}.profiler_samples
AS {database}.profiler_samples_local
ENGINE = Distributed({cluster}, {database}, profiler_samples_local, cityHash64(host));

CREATE TABLE IF NOT EXISTS {database}.profiler_spans
AS {database}.profiler_spans_local
ENGINE = Distributed({cluster}, {database}, profiler_spans_local, cityHash64(host));

CREATE TABLE IF NOT EXISTS {database}.profiler_counters
AS {database}.profiler_counters_local
ENGINE = Distributed({cluster}, {database}, profiler_counters_local, cityHash64(host));

CREATE TABLE IF NOT EXISTS {database}.profiler_groups
AS {database}.profiler_groups_local
ENGINE = Distributed({cluster}, {database}, profiler_groups_local, cityHash64(host));

CREATE TABLE IF NOT EXISTS {database}.profiler_processes
AS {database}.profiler_processes_local
ENGINE = Distributed({cluster}, {database}, profiler_processes_local, cityHash64(host));
