-- The functions of a fleet: their own time, and their time with all functions that they call.
-- The first row, `(all)`, is the sum over all functions.
SELECT
    function,
    sumIf(cpu_us, is_self) AS self_cpu_us,
    sum(cpu_us) AS total_cpu_us,
    sumIf(wall_us, is_self) AS self_wall_us,
    sum(wall_us) AS total_wall_us,
    sum(samples) AS in_samples
FROM
(
    SELECT
        function,
        function = path[-1] AS is_self,
        samples,
        wall_us,
        cpu_us
    FROM
    (
        SELECT path, samples, wall_us, cpu_us
        FROM
        (
            SELECT
                sample_stack AS stack,
                count() AS samples,
                sum(sample_wall_us) AS wall_us,
                sum(sample_cpu_us) AS cpu_us
            FROM profiler_samples FINAL
            ARRAY JOIN
                sample.stack AS sample_stack,
                sample.wall_us AS sample_wall_us,
                sample.cpu_us AS sample_cpu_us,
                arrayCumSum(sample.wall_us) AS sample_end_us
            WHERE day >= {from_day:Date} AND day <= {to_day:Date}
              AND end_us >= {from_us:UInt64} AND start_us < {to_us:UInt64}
              AND start_us + sample_end_us >= {from_us:UInt64}
              AND start_us + sample_end_us < {to_us:UInt64}
              AND ({service:String} = '' OR service = {service:String})
              AND ({version:String} = '' OR version = {version:String})
              AND ({host:String} = '' OR host = {host:String})
            GROUP BY stack
        ) AS used
        ALL LEFT JOIN
        (
            SELECT stack, any(frames) AS path
            FROM profiler_stacks
            WHERE day >= {from_day:Date} AND day <= {to_day:Date}
            GROUP BY stack
        ) AS named USING stack
    )
    ARRAY JOIN arrayConcat(['(all)'], arrayDistinct(path)) AS function
)
GROUP BY function
ORDER BY function != '(all)', self_cpu_us DESC, total_cpu_us DESC, function
LIMIT {limit:UInt64}
SETTINGS max_block_size = 256
