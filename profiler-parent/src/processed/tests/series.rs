//! Tests of profiles that continue a series: together they have the times of one profile.

use profiler_core::time::Timestamp;

use super::*;

const TICK: u64 = 10;
const WAITS: u64 = 1 << 18;
const WAITED: u64 = 1 << 19;
/// A thread that runs most of the time, and one that mostly waits.
const THREADS: [u64; 2] = [100, 101];

/// A sample: thread, time, processor time, flags, and ticks.
type Sampled = (u64, u64, u64, u64, u64);

fn encode((tid, at, cpu, flags, ticks): Sampled) -> Vec<u64> {
    let head = 8 | TAIL | FOREIGN | SAMPLE;
    let body = [
        flags | (ticks - 1) << 24,
        cpu,
        1,
        Frame::Unknown(0x1000).encode(),
    ];
    [head, at, tid, (8 * 4) << 32]
        .into_iter()
        .chain(body)
        .collect()
}

/// The recorded samples: one thread waits from 100 to 700 and from 720 on.
fn recorded() -> Vec<Sampled> {
    let [busy, idle] = THREADS;
    let mut all: Vec<Sampled> = (1..90).map(|tick| (busy, tick * TICK, 7, 0, 1)).collect();
    all.extend([
        (idle, 90, 5, 0, 1),
        (idle, 100, 3, WAITS, 1),
        (idle, 700, 0, WAITED, 60),
        (idle, 710, 8, 0, 1),
        (idle, 720, 2, WAITS, 1),
    ]);
    all.sort_by_key(|(_, at, ..)| *at);
    all
}

/// Sums of a thread: time, processor time, ticks, and ticks without a stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sums {
    wall: u64,
    cpu: u64,
    ticks: u64,
    without_stack: u64,
}

/// Adds what a profile that ends at `end` says about each thread. Returns what all profiles have.
fn add_profile(earlier: &EarlierEntries, end: u64, sums: &mut [Sums; 2]) -> EarlierEntries {
    let entries = recorded().into_iter().filter(|(_, at, ..)| *at <= end);
    let entries: Vec<_> = entries.map(encode).collect();
    let forged = Forged::new().threads(THREADS, 0).chunk(&entries);
    let reader = PoolReader::open(&*forged.file).unwrap();
    let terms = FirstPassTerms {
        window: Window::default(),
        categories: &[],
        tick: TICK,
        interval_ns: 0,
        end: Timestamp::from_raw(end),
        downsampling: None,
    };
    let mut shared = ProfileTables::new(1);
    let snapshot = reader.snapshot().unwrap();
    let sorted = sort_process(&reader, snapshot, earlier.clone(), terms, &mut shared).unwrap();
    for (thread, sums) in sorted.threads.iter().zip(sums) {
        let mut rows = Vec::new();
        let samples = &thread.samples;
        samples
            .for_each(&shared.rows, |row| rows.push(row))
            .unwrap();
        let first = rows.first().copied().unwrap_or_default();
        let mut before = first[0] - TICK * first[3];
        for (number, [at, cpu, node, ticks]) in rows.into_iter().enumerate() {
            sums.wall += at - before;
            sums.cpu += if number == 0 { 0 } else { cpu - 1 };
            sums.ticks += ticks;
            sums.without_stack += if node == 0 { ticks } else { 0 };
            before = at;
        }
    }
    sorted.and_earlier()
}

#[test]
fn the_times_of_all_profiles_of_a_series_are_those_of_one_profile() {
    let mut one = <[Sums; 2]>::default();
    add_profile(&EarlierEntries::default(), 900, &mut one);
    assert!(
        one.iter()
            .all(|sums| sums.without_stack == 0 && sums.cpu > 0)
    );
    for period in [35, 90, 150, 300, 450] {
        let mut all = <[Sums; 2]>::default();
        let mut earlier = EarlierEntries::default();
        let mut ends: Vec<u64> = (1..)
            .map(|n| 90 + n * period)
            .take_while(|at| *at < 900)
            .collect();
        ends.push(900);
        for end in ends {
            earlier = add_profile(&earlier, end, &mut all);
        }
        assert_eq!(all, one, "a profile every {period}");
    }
}

#[test]
fn a_thread_that_found_no_room_in_a_profile_goes_on_where_it_was() {
    let mut sums = <[Sums; 2]>::default();
    let earlier = add_profile(&EarlierEntries::default(), 300, &mut sums);
    let entries: Vec<_> = recorded().into_iter().map(encode).collect();
    let forged = Forged::new().threads(THREADS, 0).chunk(&entries);
    let reader = PoolReader::open(&*forged.file).unwrap();
    let profile_of = |earlier: EarlierEntries, room: usize| {
        let terms = FirstPassTerms {
            window: Window::default(),
            categories: &[],
            tick: TICK,
            interval_ns: 0,
            end: Timestamp::from_raw(900),
            downsampling: None,
        };
        let mut shared = ProfileTables::new(1);
        for _ in room..thread_cap::MAX_THREADS {
            assert!(shared.thread_cap.one_more());
        }
        let snapshot = reader.snapshot().unwrap();
        sort_process(&reader, snapshot, earlier, terms, &mut shared).unwrap()
    };
    let without = profile_of(earlier.clone(), 0).and_earlier();
    let later = profile_of(without, 2);
    let at_once = profile_of(earlier, 2);
    let delivered = |sorted: &SortedProcess| sorted.threads[0].delivery.delivered;
    assert_eq!(delivered(&later), delivered(&at_once));
    assert!(delivered(&later) > 0);
}
