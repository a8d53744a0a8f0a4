-- The flame graph of a fleet: every stack with its samples, wall time and processor time.
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
ORDER BY cpu_us DESC, wall_us DESC, path
LIMIT {limit:UInt64}
SETTINGS max_block_size = 256
