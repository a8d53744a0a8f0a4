//! The time that each sample of a thread stands for, and how much of it the thread ran.
//!
//! Used by `profiler info`, by `profiler diff` and by every export, so that their sums are the same.
//!
//! | weights of the samples | a sample stands for |
//! |---|---|
//! | milliseconds | its weight |
//! | numbers of samples | its weight in intervals |
//! | none | the time since the sample before it, without pauses |
//!
//! In each sample, the thread ran for the sample's processor time. If a sample has a stack and no
//! processor time, but others of the thread do, the thread ran for the whole time of the sample,
//! because interpreters do not measure processor time. The processor time of the first sample is 0
//! if its start is not known.
//!
//! The first sample of a thread without weights stands for one interval, or for its processor time
//! if that is longer and its start is known. Invariant: no time is negative.

use super::meta::Meta;
use super::pauses::Pauses;
use super::table::WeightType;
use super::thread::RawThread;

/// Limit on times in a file, in nanoseconds from the session's start (36 years), so that
/// differences and sums of times do not overflow.
pub const FARTHEST_NS: i64 = 1 << 60;

/// Converts milliseconds of a file to nanoseconds; 0 for NaN.
pub fn bounded_ns(ms: f64) -> i64 {
    ((ms * 1e6).round() as i64).clamp(-FARTHEST_NS, FARTHEST_NS)
}

impl RawThread {
    /// The processor time of a sample in nanoseconds; `None` if it was not measured.
    pub fn cpu_ns(&self, row: usize, meta: &Meta) -> Option<u64> {
        let used = self.samples.number(3, row) * meta.cpu_unit_ns()?;
        (used >= 0.0).then_some((used as u64).min(FARTHEST_NS.unsigned_abs()))
    }

    /// The time in nanoseconds that each sample stands for. `pauses` has the times of this thread.
    pub fn wall_times_ns(&self, meta: &Meta, pauses: &Pauses) -> Vec<i64> {
        let unit_ns = match self.samples.1 {
            WeightType::Samples => meta.interval_ns() as f64,
            WeightType::Milliseconds | WeightType::MillisecondsBefore => 1e6,
        };
        let mut pauses = pauses.in_order();
        let mut times = self.sample_times_ms().map(bounded_ns).peekable();
        let first_ns = self.first_wall_ns(meta);
        let mut before = times.peek().map_or(0, |at| at.saturating_sub(first_ns));
        let wall = |(row, at): (usize, i64)| {
            let end = at.max(before);
            let since_last = end - before - pauses.between(before, end);
            before = end;
            match self.samples.number(4, row) {
                weight if weight.is_nan() => since_last,
                weight => ((weight * unit_ns).round() as i64).clamp(0, FARTHEST_NS),
            }
        };
        times.enumerate().map(wall).collect()
    }

    /// The time in nanoseconds that the thread ran for each sample, of the times `walls` that the
    /// samples stand for. `None` if no sample has a processor time.
    pub fn busy_times_ns(&self, meta: &Meta, walls: &[i64]) -> Option<Vec<u64>> {
        let measured = |row| self.cpu_ns(row, meta);
        (0..walls.len()).find_map(measured)?;
        let busy = |(row, wall): (usize, &i64)| match measured(row) {
            Some(_) if row == 0 && !meta.knows_first_cpu() => 0,
            Some(cpu_ns) => cpu_ns,
            None if self.samples.index(0, row).is_some() => wall.unsigned_abs(),
            None => 0,
        };
        Some(walls.iter().enumerate().map(busy).collect())
    }

    /// The time that the first sample stands for if it has no weight.
    fn first_wall_ns(&self, meta: &Meta) -> i64 {
        let used = self.cpu_ns(0, meta).filter(|_| meta.knows_first_cpu());
        let used = used.map_or(0, u64::cast_signed);
        meta.interval_ns().max(used).min(FARTHEST_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Table;

    const MS: i64 = 1_000_000;

    fn walls(times: &[f64], weights: &[f64], unit: WeightType) -> Vec<i64> {
        let mut thread = RawThread::default();
        let stacks = vec![0.0; times.len()];
        thread.samples = Table::new([stacks, times.to_vec(), vec![], vec![], weights.to_vec()]);
        thread.samples.1 = unit;
        let meta: Meta = serde_json::from_str(r#"{"interval":2}"#).unwrap();
        let pauses = Pauses::new(vec![(20 * MS, 50 * MS)]);
        let walls = thread.wall_times_ns(&meta, &pauses);
        walls.into_iter().map(|ns| ns / MS).collect()
    }

    #[test]
    fn a_sample_stands_for_its_weight_in_its_unit() {
        let times = [1.0, 2.0, 60.0];
        let weights = [3.0, 0.0, -1.0];
        assert_eq!(walls(&times, &weights, WeightType::Samples), [6, 0, 0]);
        for unit in [WeightType::Milliseconds, WeightType::MillisecondsBefore] {
            assert_eq!(walls(&times, &weights, unit), [3, 0, 0]);
        }
    }

    #[test]
    fn a_thread_runs_for_its_processor_times_and_in_samples_without_one() {
        let mut thread = RawThread::default();
        let stacks = vec![0.0, 0.0, 0.0, f64::NAN];
        let walls = [5, 6, 7, 8];
        let mut busy = |cpu: [f64; 4], meta: &str| {
            let times = vec![0.0; 4];
            thread.samples = Table::new([stacks.clone(), times, vec![], cpu.to_vec(), vec![]]);
            let meta = format!(r#"{{"sampleUnits":{{"threadCPUDelta":"ns"}}{meta}}}"#);
            thread.busy_times_ns(&serde_json::from_str(&meta).unwrap(), &walls)
        };
        let nan = f64::NAN;
        let known = r#","startUnixNs":1"#;
        assert_eq!(busy([3.0, 0.0, nan, nan], known), Some(vec![3, 0, 7, 0]));
        assert_eq!(busy([3.0, 0.0, nan, nan], ""), Some(vec![0, 0, 7, 0]));
        assert_eq!(busy([nan; 4], known), None);
    }

    #[test]
    fn a_sample_without_a_weight_stands_for_the_time_since_the_last_without_pauses() {
        let times = [1.0, 11.0, 60.0, 55.0, 62.0];
        assert_eq!(walls(&times, &[], WeightType::Samples), [2, 10, 19, 0, 2]);
    }
}
