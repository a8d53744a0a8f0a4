-- The slowest kinds of spans. A span counts if it ends in the range, and may have begun a day before.
-- A span whose start and end are in different batches is joined by its number; one with a single end
-- is left out. An interval that ends before its start has no length.
SELECT
    span_name,
    count() AS spans,
    sum(toUInt64(duration_ns)) AS time_ns,
    quantile(0.99)(toUInt64(duration_ns)) AS p99_ns,
    max(toUInt64(duration_ns)) AS longest_ns
FROM
(
    SELECT
        argMinIf(name, start_ns, phase != 'end') AS span_name,
        minIf(start_ns, phase != 'end') AS started_ns,
        maxIf(end_ns, phase != 'start') AS ended_ns,
        greatest(ended_ns, started_ns) - started_ns AS duration_ns
    FROM profiler_spans FINAL
    WHERE day >= {day_before:Date} AND day <= {to_day:Date}
      AND phase IN ('interval', 'start', 'end') AND (span != 0 OR phase = 'interval')
      AND ({service:String} = '' OR service = {service:String})
      AND ({version:String} = '' OR version = {version:String})
      AND ({host:String} = '' OR host = {host:String})
    GROUP BY host, session, pid, span, if(phase = 'interval', concat(toString(batch), ' ', toString(seq)), '') AS alone
    HAVING countIf(phase != 'start') > 0 AND countIf(phase != 'end') > 0 AND started_ns > 0
       AND ended_ns >= {from_us:UInt64} * 1000 AND ended_ns < {to_us:UInt64} * 1000
)
GROUP BY span_name
ORDER BY time_ns DESC, span_name
LIMIT {limit:UInt64}
