//! A property test: random sequences of chunk events are compared with a simple model, a list of
//! held and a list of released chunks with their entries.

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::manager::maintenance;
use crate::reader::PoolReader;

#[derive(Clone, Debug)]
enum Step {
    Take(u8, Index),
    Write(Index, u64),
    HandOver(Index),
    Allowance(u64),
    DestroyAtOrBefore(Index),
    Pass,
    TakeReady(u8, Index),
    NewThread,
    EndThread(Index),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0_u8..4, any::<Index>()).prop_map(|(class, row)| Step::Take(class, row)),
        6 => (any::<Index>(), 1_u64..400).prop_map(|(held, count)| Step::Write(held, count)),
        6 => any::<Index>().prop_map(Step::HandOver),
        2 => (8_u64..120).prop_map(Step::Allowance),
        1 => any::<Index>().prop_map(Step::DestroyAtOrBefore),
        3 => Just(Step::Pass),
        2 => (0_u8..3, any::<Index>()).prop_map(|(class, row)| Step::TakeReady(class, row)),
        1 => Just(Step::NewThread),
        1 => any::<Index>().prop_map(Step::EndThread),
    ];
    prop::collection::vec(step, 1..120)
}

/// The expected state.
#[derive(Default)]
struct Model {
    threads: Vec<(ThreadIndex, RowUse)>,
    held: Vec<(Held, u64)>,
    /// Done time and entries, oldest first.
    released: Vec<(Timestamp, u64)>,
    evicted: u64,
    written: u64,
}

impl Model {
    fn hand_over(&mut self, bench: &mut Bench, place: usize) {
        let (held, entries) = self.held.swap_remove(place);
        let done = bench.hand_over(held);
        if entries > 0 {
            self.released.push((done, entries));
        }
    }

    fn opened(&mut self, bench: &mut Bench, index: ChunkIndex, row: ThreadIndex) {
        let start = bench.tick();
        let pool = bench.manager.pool();
        let first_entry = pool.thread_row(row).unwrap().sealed();
        pool.slot(index).unwrap().open(Opening {
            thread: row,
            start,
            first_entry,
        });
        self.held.push((Held { index, row }, 0));
    }

    /// A thread's chunk is done before the thread takes the next one.
    fn leave(&mut self, bench: &mut Bench, row: ThreadIndex) {
        if let Some(place) = self.held.iter().position(|(held, _)| held.row == row) {
            self.hand_over(bench, place);
        }
    }

    fn step(&mut self, bench: &mut Bench, step: &Step) {
        match step {
            Step::Take(class, row) => {
                let (row, _) = self.threads[row.index(self.threads.len())];
                self.leave(bench, row);
                bench.collect();
                if let Ok(held) = bench.take(*class, row) {
                    assert!(
                        bench.used() <= bench.allowed(),
                        "taken beyond the allowance"
                    );
                    self.held.push((held, 0));
                }
            }
            Step::TakeReady(class, row) => {
                let (row, _) = self.threads[row.index(self.threads.len())];
                self.leave(bench, row);
                if let Some(index) = bench.manager.ready.take(*class) {
                    self.opened(bench, index, row);
                }
            }
            Step::Write(held, count) if !self.held.is_empty() => {
                let place = held.index(self.held.len());
                let written = bench.write(self.held[place].0, *count);
                self.held[place].1 += written;
                self.written += written;
            }
            Step::HandOver(held) if !self.held.is_empty() => {
                self.hand_over(bench, held.index(self.held.len()));
            }
            Step::Allowance(pages) => {
                bench.manager.set_allowance(ByteLimit::new(pages * PAGE));
                self.check_obeyed(bench);
            }
            Step::DestroyAtOrBefore(chunk) if !self.released.is_empty() => {
                let (done, _) = self.released[chunk.index(self.released.len())];
                bench.manager.destroy_at_or_before(done);
                assert!(
                    bench
                        .manager
                        .lock()
                        .chunks
                        .oldest_done()
                        .is_none_or(|oldest| oldest > done)
                );
            }
            Step::Pass => {
                maintenance::pass(&bench.manager, None);
                self.check_obeyed(bench);
            }
            Step::NewThread if self.threads.len() < 20 => self.threads.push(bench.thread()),
            Step::EndThread(thread) if self.threads.len() > 1 => {
                let (row, own_use) = self.threads.swap_remove(thread.index(self.threads.len()));
                self.leave(bench, row);
                let now = bench.tick();
                bench
                    .manager
                    .threads
                    .end(bench.manager.pool(), row, own_use, now);
            }
            _ => {}
        }
    }

    fn check_obeyed(&self, bench: &Bench) {
        if bench.used() > bench.allowed() {
            let ready: usize = (0..9).map(|class| bench.manager.ready.count(class)).sum();
            assert_eq!(
                bench.manager.lock().chunks.oldest_done(),
                None,
                "a released chunk could have been destroyed"
            );
            assert_eq!(ready, 0, "a ready chunk could have been destroyed");
        }
    }

    /// The oldest chunks, and only those, are gone, and the real counts agree.
    fn check(&mut self, bench: &Bench) {
        bench.collect();
        let oldest = bench.manager.lock().chunks.oldest_done();
        let gone = self
            .released
            .iter()
            .take_while(|(done, _)| oldest.is_none_or(|oldest| *done < oldest));
        let gone = gone.count();
        self.evicted += self
            .released
            .drain(..gone)
            .map(|(_, entries)| entries)
            .sum::<u64>();
        assert!(
            bench.allocated() <= bench.used(),
            "memory is in use that is not charged"
        );

        let reader =
            PoolReader::open(bench.manager.pool().file().unwrap().try_clone().unwrap()).unwrap();
        let counts = reader.snapshot().unwrap().counts();
        let kept: u64 = self
            .released
            .iter()
            .chain(&self.open())
            .map(|(_, entries)| entries)
            .sum();
        assert_eq!((counts.delivered, counts.evicted), (kept, self.evicted));
        assert_eq!(counts.recorded(), self.written);
    }

    fn open(&self) -> Vec<(Timestamp, u64)> {
        self.held
            .iter()
            .map(|(_, entries)| (Timestamp::MAX, *entries))
            .collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn the_manager_agrees_with_a_simple_list(steps in steps()) {
        let mut bench = Bench::new(100);
        let mut model = Model::default();
        model.threads.push(bench.thread());
        for step in &steps {
            model.step(&mut bench, step);
            model.check(&bench);
        }
        while !model.held.is_empty() {
            model.hand_over(&mut bench, 0);
        }
        bench.manager.lock().chunks.clear(&bench.manager);
        model.check(&bench);
        prop_assert_eq!(model.evicted, model.written);
        // Header, two pages of thread rows, four of the directory at most; no chunk.
        prop_assert!(bench.used() <= 7 * PAGE, "{} bytes are still held", bench.used());
        prop_assert!(bench.allocated() <= bench.used());
    }
}
