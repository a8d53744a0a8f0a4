-- The slowest kinds of spans. A span whose start and end are in different batches is joined by its
-- number; one with a single end is left out.
SELECT
    span_name,
    count() AS spans,
    sum(duration_ns) AS time_ns,
    quantile(0.99)(duration_ns) AS p99_ns,
    max(duration_ns) AS longest_ns
FROM
(
    SELECT
        argMinIf(name, start_ns, phase != 'end') AS span_name,
        maxIf(end_ns, phase != 'start') - minIf(start_ns, phase != 'end') AS duration_ns
    FROM profiler_spans FINAL
    WHERE day >= {from_day:Date} AND day <= {to_day:Date}
      AND phase IN ('interval', 'start', 'end') AND (span != 0 OR phase = 'interval')
      AND greatest(start_ns, end_ns) >= {from_us:UInt64} * 1000
      AND greatest(start_ns, end_ns) < {to_us:UInt64} * 1000
      AND ({service:String} = '' OR service = {service:String})
      AND ({version:String} = '' OR version = {version:String})
      AND ({host:String} = '' OR host = {host:String})
    GROUP BY host, session, pid, span, if(phase = 'interval', concat(toString(batch), ' ', toString(seq)), '') AS alone
    HAVING countIf(phase != 'start') > 0 AND countIf(phase != 'end') > 0
)
GROUP BY span_name
ORDER BY time_ns DESC, span_name
LIMIT {limit:UInt64}
