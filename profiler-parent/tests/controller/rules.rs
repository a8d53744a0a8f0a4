//! Tests of the controller's rules, one by one, with handwritten reports.

use profiler_core::ids::{ByteLimit, PoolId};
use profiler_core::internal::manager::update::{ReleasedChunk, Update};
use profiler_core::time::Timestamp;
use profiler_parent::internal::controller::{
    Command, Controller, DeadPoolMemory, Event, Policy, Refusal,
};

use super::child::key;

const PAGE: u64 = 4096;

/// A floor of 4 pages and first allowances of exactly 4 pages.
const POLICY: Policy = Policy {
    floor: 4 * PAGE,
    page: PAGE,
    initial: 0,
    reserve: 0,
};

struct Parent(Controller);

impl Parent {
    fn new() -> Self {
        Self(Controller::new(ByteLimit::new(0), POLICY))
    }

    fn set_limit(&mut self, pages: u64) -> Vec<Command> {
        self.handle(Event::LimitChanged {
            limit: ByteLimit::new(pages * PAGE),
        })
    }

    fn handle(&mut self, event: Event) -> Vec<Command> {
        let mut out = Vec::new();
        self.0.handle(event, &mut out);
        out
    }

    /// Raises the limit by `pages` and adds a process that fills them: with one page that is not
    /// released, and chunks of one page with times from `time` on.
    fn filled(&mut self, pid: u32, pages: u64, time: u64) -> PoolId {
        self.set_limit(self.0.limit().get() / PAGE + pages);
        let key = key(pid, 1);
        self.handle(Event::Join { key });
        self.handle(Event::Connected { key });
        while self.pages(key) < pages {
            let missing = pages - self.pages(key);
            let sent = self.pages(key);
            self.handle(Event::Update {
                key,
                update: report(sent, 1, &[], missing),
            });
        }
        self.handle(Event::Update {
            key,
            update: report(pages, 1, &row(time, pages - 1), 0),
        });
        key
    }

    fn update(&mut self, key: PoolId, update: Update) -> Vec<Command> {
        self.handle(Event::Update { key, update })
    }

    fn pages(&self, key: PoolId) -> u64 {
        self.0.allowance(key).unwrap().get() / PAGE
    }

    fn free_pages(&self) -> u64 {
        self.0.free() / PAGE
    }
}

fn row(time: u64, pages: u64) -> Vec<ReleasedChunk> {
    (time..time + pages)
        .map(|done| ReleasedChunk {
            done: Timestamp::from_raw(done),
            bytes: PAGE,
        })
        .collect()
}

/// A report with sizes in pages; `chunks` are all released chunks.
fn report(allowance: u64, unreleased: u64, chunks: &[ReleasedChunk], wanted: u64) -> Update {
    Update {
        unreleased_bytes: unreleased * PAGE,
        released_bytes: chunks.iter().map(|chunk| chunk.bytes).sum(),
        oldest_done: chunks.first().map(|chunk| chunk.done),
        newly_released: chunks.to_vec(),
        wanted_bytes: wanted * PAGE,
        allowance: ByteLimit::new(allowance * PAGE),
    }
}

/// The same report without the list of chunks.
fn again(allowance: u64, chunks: &[ReleasedChunk], wanted: u64) -> Update {
    Update {
        newly_released: Vec::new(),
        ..report(allowance, 1, chunks, wanted)
    }
}

fn destroy(key: PoolId, at_or_before: u64) -> Command {
    Command::Destroy {
        key,
        at_or_before: Timestamp::from_raw(at_or_before),
    }
}

fn awaits(key: PoolId, pages: u64) -> Command {
    Command::Await {
        key,
        allowance: ByteLimit::new(pages * PAGE),
    }
}

/// `old` and `young` share 24 pages; `young` wants one more, and `old` has the oldest data.
fn old_and_young() -> (Parent, PoolId, PoolId) {
    let mut parent = Parent::new();
    let old = parent.filled(1, 12, 100);
    let young = parent.filled(2, 12, 200);
    assert_eq!(parent.free_pages(), 0);
    let out = parent.update(young, again(12, &row(201, 10), 1));
    assert_eq!(out, [destroy(old, 100), awaits(young, 12)]);
    (parent, old, young)
}

#[test]
fn a_lowered_allowance_is_free_only_when_shown() {
    let (mut parent, old, young) = old_and_young();
    assert_eq!((parent.pages(old), parent.free_pages()), (11, 0));
    // The chunk is destroyed, but until the smaller allowance arrives it may take another.
    assert_eq!(
        parent.update(old, again(12, &row(101, 10), 0)),
        [awaits(old, 11)]
    );
    assert_eq!(
        (parent.0.figures(old).unwrap().owed(), parent.free_pages()),
        (PAGE, 0)
    );
    assert_eq!(
        parent.update(old, again(11, &row(101, 10), 0)),
        [awaits(old, 11)]
    );
    assert_eq!(parent.0.figures(old).unwrap().owed(), 0);
    assert_eq!(
        (parent.pages(young), parent.free_pages()),
        (13, 0),
        "the page goes to the process that needed it"
    );
}

#[test]
fn a_smaller_allowance_with_more_held_frees_only_the_difference_to_what_is_held() {
    let (mut parent, old, _) = old_and_young();
    parent.update(old, again(12, &row(101, 11), 0));
    parent.update(old, again(11, &row(101, 11), 0));
    assert_eq!(parent.0.figures(old).unwrap().owed(), PAGE);
}

#[test]
fn an_owner_that_does_not_answer_is_passed_over() {
    let (mut parent, old, young) = old_and_young();
    let third = key(3, 1);
    let out = parent.handle(Event::Join { key: third });
    let refused = Command::Refuse {
        key: third,
        why: Refusal::NotYet { missing: 4 * PAGE },
    };
    assert_eq!(
        out,
        [refused, destroy(young, 202)],
        "only for pages that are not owed already"
    );
    assert_eq!(parent.pages(old), 11, "not asked again while it owes");
}

#[test]
fn a_refused_process_finds_its_floor_when_it_tries_again() {
    let mut parent = Parent::new();
    let old = parent.filled(1, 12, 100);
    let young = parent.filled(2, 12, 200);
    let third = key(3, 1);
    let out = parent.handle(Event::Join { key: third });
    assert_eq!(out[1..], [destroy(old, 103)]);
    parent.update(old, again(12, &row(104, 7), 0));
    parent.update(old, again(8, &row(104, 7), 0));
    assert_eq!(parent.free_pages(), 4);
    // No other process gets these pages meanwhile.
    parent.update(young, again(12, &row(201, 10), 4));
    assert_eq!((parent.pages(young), parent.free_pages()), (12, 4));
    let out = parent.handle(Event::Join { key: third });
    assert_eq!(
        out,
        [Command::Admit {
            key: third,
            allowance: ByteLimit::new(4 * PAGE)
        }]
    );
}

#[test]
fn a_process_that_gives_up_joining_frees_its_claim() {
    let mut parent = Parent::new();
    let first = parent.filled(1, 12, 100);
    parent.handle(Event::Join { key: key(3, 1) });
    parent.handle(Event::Forgotten { key: key(3, 1) });
    parent.update(first, again(12, &row(104, 7), 0));
    parent.update(first, again(8, &row(104, 7), 0));
    parent.update(first, again(8, &row(105, 6), 4));
    assert_eq!(parent.pages(first), 12);
}

#[test]
fn data_younger_than_that_of_the_requesting_process_is_not_taken() {
    let mut parent = Parent::new();
    let old = parent.filled(1, 12, 100);
    let young = parent.filled(2, 12, 200);
    assert_eq!(
        parent.update(old, again(12, &row(101, 10), 5)),
        [awaits(old, 12)]
    );
    assert_eq!((parent.pages(old), parent.pages(young)), (12, 12));
}

#[test]
fn the_oldest_data_of_all_processes_is_destroyed_first() {
    let mut parent = Parent::new();
    let even = parent.filled(1, 12, 100);
    let odd = parent.filled(2, 12, 105);
    parent.filled(3, 12, 300);
    let out = parent.set_limit(28);
    assert_eq!(out, [destroy(even, 106), destroy(odd, 105)]);
    assert_eq!(
        (parent.pages(even), parent.pages(odd), parent.0.over()),
        (5, 11, 8 * PAGE)
    );
}

#[test]
fn unused_allowance_of_a_quiet_process_is_taken_before_any_data() {
    let mut parent = Parent::new();
    let busy = parent.filled(1, 24, 100);
    let quiet = parent.filled(2, 24, 200);
    parent.update(quiet, again(24, &row(200, 7), 0)); // holds 8 of 24
    for time in 0..7 {
        let update = Update {
            newly_released: row(124 + time, 1),
            ..again(24, &row(101 + time, 23), 0)
        };
        parent.update(busy, update);
    }
    let out = parent.update(busy, again(24, &row(108, 23), 4));
    assert_eq!(out, [destroy(quiet, 0), awaits(busy, 24)]);
    assert_eq!(
        parent.pages(quiet),
        17,
        "half of its unused pages are taken, except for a reserve for a chunk"
    );
}

#[test]
fn no_command_takes_a_live_process_below_its_floor() {
    let mut parent = Parent::new();
    let first = parent.filled(1, 12, 100);
    let second = parent.filled(2, 12, 200);
    parent.set_limit(0);
    assert_eq!((parent.pages(first), parent.pages(second)), (4, 4));
    for (key, time) in [(first, 108), (second, 208)] {
        parent.update(key, again(12, &row(time, 3), 0));
        parent.update(key, again(4, &row(time, 3), 9));
    }
    assert_eq!(
        (parent.pages(first), parent.pages(second), parent.0.over()),
        (4, 4, 8 * PAGE)
    );
    let out = parent.handle(Event::Join { key: key(3, 1) });
    let why = Refusal::LimitTooSmall {
        limit: 0,
        needed: 12 * PAGE,
    };
    assert_eq!(
        out,
        [Command::Refuse {
            key: key(3, 1),
            why
        }]
    );
}

#[test]
fn a_dead_process_keeps_its_data_until_it_is_the_oldest() {
    let mut parent = Parent::new();
    let dead = parent.filled(1, 12, 100);
    let young = parent.filled(2, 12, 200);
    let pool = DeadPoolMemory {
        true_bytes: 10 * PAGE,
        unreleased_bytes: PAGE,
        chunks: row(102, 9),
    };
    assert_eq!(parent.handle(Event::Died { key: dead, pool }), []);
    assert_eq!(
        parent.free_pages(),
        2,
        "a dead process never uses more than it holds"
    );
    let out = parent.update(young, again(12, &row(201, 10), 3));
    assert_eq!(
        out[0],
        Command::DestroyDead {
            key: dead,
            at_or_before: Timestamp::from_raw(102)
        }
    );
    parent.handle(Event::DeadDestroyed {
        key: dead,
        held_bytes: 9 * PAGE,
    });
    assert_eq!(parent.0.figures(dead).unwrap().charged, 9 * PAGE);
}

#[test]
fn a_dead_pool_without_chunks_is_dropped() {
    let mut parent = Parent::new();
    let dead = parent.filled(1, 12, 100);
    let pool = DeadPoolMemory {
        true_bytes: 10 * PAGE,
        unreleased_bytes: PAGE,
        chunks: row(102, 9),
    };
    parent.handle(Event::Died { key: dead, pool });
    let out = parent.set_limit(0);
    assert_eq!(
        out,
        [Command::DestroyDead {
            key: dead,
            at_or_before: Timestamp::from_raw(110)
        }]
    );
    let out = parent.handle(Event::DeadDestroyed {
        key: dead,
        held_bytes: PAGE,
    });
    assert_eq!(out, [Command::DropDead { key: dead }]);
    assert_eq!(parent.0.charged(), PAGE, "charged until it is closed");
    parent.handle(Event::Forgotten { key: dead });
    assert_eq!(parent.0.charged(), 0);
}

#[test]
fn a_reused_pid_is_another_process() {
    let mut parent = Parent::new();
    let first = parent.filled(1, 12, 100);
    let pool = DeadPoolMemory {
        true_bytes: 10 * PAGE,
        unreleased_bytes: PAGE,
        chunks: row(102, 9),
    };
    parent.handle(Event::Died { key: first, pool });
    parent.set_limit(24);
    let out = parent.handle(Event::Join { key: key(1, 2) });
    assert!(matches!(out[..], [Command::Admit { .. }]));
    assert_eq!(
        parent.update(first, again(12, &[], 9)),
        [],
        "a late report of the dead process"
    );
    assert_eq!(parent.0.charged(), 14 * PAGE);
}

#[test]
fn a_report_that_claims_more_than_allowed_takes_nothing_from_others() {
    let (mut parent, old, _) = old_and_young();
    let boast = Update {
        unreleased_bytes: u64::MAX,
        allowance: ByteLimit::new(u64::MAX),
        ..report(1, 1, &row(300, 50), 0)
    };
    parent.update(old, boast);
    assert_eq!((parent.0.charged(), parent.0.over()), (24 * PAGE, 0));
}

#[test]
fn a_process_keeps_the_pages_that_it_cannot_free() {
    let (mut parent, old, _) = old_and_young();
    parent.update(old, report(12, 12, &[], 0));
    parent.update(old, report(11, 12, &[], 0));
    let figures = parent.0.figures(old).unwrap();
    assert_eq!((parent.pages(old), figures.owed()), (12, 0));
}

#[test]
fn an_unpaid_debt_is_finally_taken_from_other_processes() {
    let mut parent = Parent::new();
    let silent = parent.filled(1, 12, 100);
    let other = parent.filled(2, 12, 200);
    parent.set_limit(20);
    assert_eq!((parent.pages(silent), parent.pages(other)), (8, 12));
    for time in 0..4 {
        let update = Update {
            newly_released: row(212 + time, 1),
            ..again(12, &row(202 + time, 10), 0)
        };
        parent.update(other, update);
    }
    assert_eq!((parent.pages(silent), parent.pages(other)), (8, 8));
}

#[test]
fn a_process_that_needs_nothing_causes_no_requests_to_others() {
    let mut parent = Parent::new();
    let young = parent.filled(2, 6, 200);
    parent.filled(1, 12, 100);
    assert_eq!(
        parent.update(young, again(6, &row(200, 5), 0)),
        [awaits(young, 6)]
    );
}

#[test]
fn unused_allowance_of_a_process_that_has_just_reported_is_not_taken() {
    let mut parent = Parent::new();
    let busy = parent.filled(1, 24, 100);
    let pausing = parent.filled(2, 24, 200);
    parent.update(pausing, again(24, &row(200, 11), 0));
    assert_eq!(
        parent.update(busy, again(24, &row(101, 22), 4)),
        [awaits(busy, 24)]
    );
}

#[test]
fn what_a_process_was_lent_beyond_twice_its_need_is_taken_at_once() {
    let mut parent = Parent::new();
    let busy = parent.filled(1, 24, 100);
    let pausing = parent.filled(2, 24, 200);
    parent.update(pausing, again(24, &row(200, 7), 0));
    assert_eq!(
        parent.update(busy, again(24, &row(101, 22), 4)),
        [destroy(pausing, 0), awaits(busy, 24)]
    );
    assert_eq!(parent.pages(pausing), 20);
}

#[test]
fn an_overdue_debt_of_a_silent_process_is_taken_from_other_processes() {
    let mut parent = Parent::new();
    let silent = parent.filled(1, 12, 100);
    let other = parent.filled(2, 12, 200);
    parent.set_limit(18);
    assert_eq!((parent.pages(silent), parent.pages(other)), (6, 12));
    let out = parent.handle(Event::Overdue);
    assert_eq!(out, [destroy(other, 205)]);
    assert_eq!((parent.pages(silent), parent.pages(other)), (6, 6));
    // The process answers after all: its pages are free for any process.
    parent.update(other, again(12, &row(206, 5), 0));
    parent.update(other, again(6, &row(206, 5), 0));
    parent.update(silent, again(12, &row(106, 5), 0));
    parent.update(silent, again(6, &row(106, 5), 0));
    assert_eq!((parent.0.over(), parent.free_pages()), (0, 6));
}

#[test]
fn pages_above_the_allowance_of_one_process_are_taken_from_the_others() {
    let mut parent = Parent::new();
    let wild = parent.filled(1, 12, 100);
    let other = parent.filled(2, 12, 200);
    let out = parent.handle(Event::Occupies {
        key: wild,
        true_bytes: 17 * PAGE,
    });
    assert_eq!(
        out,
        [destroy(other, 204)],
        "a process that does not obey gets no request"
    );
    assert_eq!(
        (parent.0.figures(wild).unwrap().excess, parent.0.over()),
        (5 * PAGE, 5 * PAGE)
    );
    parent.update(other, again(12, &row(205, 6), 0));
    parent.update(other, again(7, &row(205, 6), 0));
    assert_eq!(
        (parent.pages(wild), parent.pages(other), parent.0.over()),
        (12, 7, 0)
    );
    assert_eq!(
        parent.update(wild, again(12, &row(101, 10), 5)),
        [awaits(wild, 12)],
        "and gets no more pages"
    );
    parent.handle(Event::Occupies {
        key: wild,
        true_bytes: 12 * PAGE,
    });
    assert_eq!(
        (parent.0.figures(wild).unwrap().excess, parent.free_pages()),
        (0, 5)
    );
}

#[test]
fn a_disobedient_process_takes_at_most_half_of_the_limit_from_the_others() {
    let mut parent = Parent::new();
    let wild = parent.filled(1, 8, 100);
    let other = parent.filled(2, 40, 200);
    parent.handle(Event::Occupies {
        key: wild,
        true_bytes: 1 << 40,
    });
    assert_eq!(
        (parent.pages(wild), parent.pages(other)),
        (8, 16),
        "24 of 48 pages stay with the processes"
    );
    assert!(
        parent.0.over() > 1 << 39,
        "the excess over the limit is reported"
    );
    assert_eq!(parent.handle(Event::Forgotten { key: wild }), []);
    assert_eq!(parent.0.figures(other).unwrap().charged, 40 * PAGE);
}

#[test]
fn a_process_that_fills_its_allowance_has_no_excess() {
    let mut parent = Parent::new();
    let key = parent.filled(1, 12, 100);
    assert_eq!(
        parent.handle(Event::Occupies {
            key,
            true_bytes: 12 * PAGE
        }),
        []
    );
    assert_eq!(
        (parent.0.figures(key).unwrap().excess, parent.pages(key)),
        (0, 12)
    );
}

#[test]
fn a_new_channel_begins_with_a_report_that_lists_everything() {
    let mut parent = Parent::new();
    let key = parent.filled(1, 12, 100);
    parent.handle(Event::Disconnected { key });
    parent.handle(Event::Connected { key });
    parent.update(key, report(12, 1, &row(100, 11), 0));
    assert_eq!(
        parent.0.figures(key).unwrap().oldest,
        Some(Timestamp::from_raw(100))
    );
}

#[test]
fn only_figures_of_changed_accounts_are_reported() {
    let mut parent = Parent::new();
    let old = parent.filled(1, 12, 100);
    let young = parent.filled(2, 12, 200);
    let bystander = parent.filled(3, 12, 300);
    assert_eq!(parent.0.take_changed_figures().count(), 3);
    parent.update(young, again(12, &row(201, 10), 1));
    let mut changed: Vec<_> = parent
        .0
        .take_changed_figures()
        .map(|(key, _)| key)
        .collect();
    changed.sort();
    assert_eq!(changed, [old, young]);
    parent.handle(Event::Forgotten { key: bystander });
    assert_eq!(parent.0.take_changed_figures().count(), 0);
}
