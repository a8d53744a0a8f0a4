-- What changed between two releases: the share of processor time of each function, in itself and
-- with all functions that it calls, in each release, and the change of the share.
SELECT
    row.1 AS function,
    if(all_before = 0, 0, row.2 / all_before) AS self_before,
    if(all_after = 0, 0, row.3 / all_after) AS self_after,
    if(all_before = 0, 0, row.4 / all_before) AS total_before,
    if(all_after = 0, 0, row.5 / all_after) AS total_after,
    row.6 AS samples_before,
    row.7 AS samples_after
FROM
(
    SELECT
        groupArray((function, self_cpu_before, self_cpu_after, total_cpu_before, total_cpu_after,
            in_samples_before, in_samples_after)) AS rows,
        max(total_cpu_before) AS all_before,
        max(total_cpu_after) AS all_after
    FROM
    (
        SELECT
            function,
            sumIf(cpu_before, is_self) AS self_cpu_before,
            sumIf(cpu_after, is_self) AS self_cpu_after,
            sum(cpu_before) AS total_cpu_before,
            sum(cpu_after) AS total_cpu_after,
            sum(samples_before) AS in_samples_before,
            sum(samples_after) AS in_samples_after
        FROM
        (
            SELECT
                function,
                function = path[-1] AS is_self,
                samples_before,
                samples_after,
                cpu_before,
                cpu_after
            FROM
            (
                SELECT path, samples_before, samples_after, cpu_before, cpu_after
                FROM
                (
                    SELECT
                        sample_stack AS stack,
                        countIf(version = {before:String}) AS samples_before,
                        countIf(version = {after:String}) AS samples_after,
                        sumIf(sample_cpu_us, version = {before:String}) AS cpu_before,
                        sumIf(sample_cpu_us, version = {after:String}) AS cpu_after
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
                      AND version IN ({before:String}, {after:String})
                      AND ({service:String} = '' OR service = {service:String})
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
    )
)
ARRAY JOIN rows AS row
ORDER BY abs(self_after - self_before) DESC, abs(total_after - total_before) DESC, function
LIMIT {limit:UInt64}
SETTINGS max_block_size = 256
