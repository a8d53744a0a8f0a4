-- The spans that were open when their process ended, with their fields: starts without an end, of
-- processes that no later batch found running. A span may have begun a day before the range.
SELECT
    host,
    process_name,
    pid,
    died_ns,
    last_verdict,
    span_name,
    span_thread,
    started_ns,
    greatest(died_ns, started_ns) - started_ns AS open_ns,
    keys,
    values
FROM
(
    SELECT
        host,
        session,
        splitByChar('.', pid)[1] AS process_id,
        pid,
        span,
        if(span = 0, concat(thread, '\n', name), '') AS without_number,
        countIf(phase = 'start') AS starts,
        countIf(phase = 'end') AS ends,
        argMinIf(name, start_ns, phase = 'start') AS span_name,
        argMinIf(thread, start_ns, phase = 'start') AS span_thread,
        argMinIf(field.key, start_ns, phase = 'start') AS keys,
        argMinIf(field.value, start_ns, phase = 'start') AS values,
        minIf(start_ns, phase = 'start') AS started_ns
    FROM profiler_spans FINAL
    WHERE day >= {day_before:Date} AND day <= {to_day:Date}
      AND phase IN ('start', 'end')
      AND ({service:String} = '' OR service = {service:String})
      AND ({version:String} = '' OR version = {version:String})
      AND ({host:String} = '' OR host = {host:String})
    GROUP BY host, session, process_id, pid, span, without_number
    HAVING starts > 0 AND if(span = 0, starts > ends, ends = 0)
) AS open
ALL INNER JOIN
(
    SELECT
        host,
        session,
        pid AS process_id,
        argMax(process, captured_ns) AS process_name,
        argMax(verdict, captured_ns) AS last_verdict,
        max(ended_ns) AS died_ns,
        maxIf(captured_ns, ended_ns = 0) AS last_alive_ns
    FROM
    (
        SELECT host, session, pid, process, verdict, captured_ns, ended_ns
        FROM profiler_processes FINAL
        WHERE day >= {from_day:Date} AND recorded > 0
          AND ({service:String} = '' OR service = {service:String})
          AND ({version:String} = '' OR version = {version:String})
          AND ({host:String} = '' OR host = {host:String})
    )
    GROUP BY host, session, process_id
    HAVING died_ns > last_alive_ns
) AS died USING (host, session, process_id)
WHERE died_ns >= {from_us:UInt64} * 1000 AND died_ns < {to_us:UInt64} * 1000
ORDER BY died_ns, host, pid, started_ns, span_name
LIMIT {limit:UInt64}
