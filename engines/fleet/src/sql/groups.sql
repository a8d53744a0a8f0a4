-- The slowest performance groups of each host and version: those with the most time per run.
SELECT
    host,
    version,
    group_name,
    sum(runs) AS all_runs,
    sum(time_ns) AS all_time_ns,
    all_time_ns / all_runs AS ns_per_run
FROM
(
    SELECT host, version, name AS group_name, runs, time_ns
    FROM profiler_groups FINAL
    WHERE day >= {from_day:Date} AND day <= {to_day:Date}
      AND end_ns >= {from_us:UInt64} * 1000 AND start_ns < {to_us:UInt64} * 1000
      AND ({service:String} = '' OR service = {service:String})
      AND ({version:String} = '' OR version = {version:String})
      AND ({host:String} = '' OR host = {host:String})
)
GROUP BY host, version, group_name
HAVING all_runs > 0
ORDER BY host, version, ns_per_run DESC, group_name
LIMIT {limit:UInt64} BY host, version
