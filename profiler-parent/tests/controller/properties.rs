//! Property test with random histories: processes that join, flood, pause, die and freeze, reused
//! pids, lost answers, changed limits, and processes that write outside their allowance.
//!
//! This file generates the histories. `world` carries them out and checks after every step.

use proptest::prelude::*;

use super::world::{PAGE, World};

#[derive(Clone, Debug)]
enum Step {
    Join(u32),
    Retry(usize),
    Fill(usize, u32),
    Flood(usize, u32, usize),
    Obey(usize),
    ToChild(usize),
    ToParent(usize),
    Work(usize),
    Freeze(usize, bool),
    Die(usize),
    Reconnect(usize),
    Forget(usize),
    Limit(u64),
    Overdue,
    Scribble(usize, u64),
    Settle,
}

fn step() -> impl Strategy<Value = Step> {
    let who = 0..6_usize;
    prop_oneof![
        3 => (0..5_u32).prop_map(Step::Join),
        2 => who.clone().prop_map(Step::Retry),
        12 => (who.clone(), 0..5_u32).prop_map(|(who, class)| Step::Fill(who, class)),
        4 => (who.clone(), 0..5_u32, 1..40_usize).prop_map(|(who, class, times)| Step::Flood(who, class, times)),
        8 => who.clone().prop_map(Step::Obey),
        16 => who.clone().prop_map(Step::ToChild),
        16 => who.clone().prop_map(Step::ToParent),
        6 => who.clone().prop_map(Step::Work),
        1 => (who.clone(), any::<bool>()).prop_map(|(who, frozen)| Step::Freeze(who, frozen)),
        1 => who.clone().prop_map(Step::Die),
        1 => who.clone().prop_map(Step::Reconnect),
        1 => who.clone().prop_map(Step::Forget),
        1 => (who, prop_oneof![Just(0), 0..600_u64]).prop_map(|(who, pages)| Step::Scribble(who, pages)),
        1 => Just(Step::Overdue),
        1 => prop_oneof![(0..400_u64).prop_map(|pages| pages * PAGE + 17), Just(0)].prop_map(Step::Limit),
        1 => Just(Step::Settle),
    ]
}

fn run(world: &mut World, step: Step) {
    match step {
        Step::Join(pid) => world.join(pid),
        Step::Retry(who) => world.retry(who),
        Step::Fill(who, class) => world.fill(who, class),
        Step::Flood(who, class, times) => flood(world, who, class, times),
        Step::Obey(who) => world.obey(who),
        Step::ToChild(who) => world.deliver_to_child(who),
        Step::ToParent(who) => world.deliver_to_parent(who),
        Step::Work(who) => world.work(who),
        Step::Freeze(who, frozen) => world.freeze(who, frozen),
        Step::Die(who) => world.die(who),
        Step::Reconnect(who) => world.reconnect(who),
        Step::Forget(who) => world.forget(who),
        Step::Limit(limit) => world.set_limit(limit),
        Step::Overdue => world.overdue(),
        Step::Scribble(who, pages) => world.scribble(who, pages),
        Step::Settle => world.settle(),
    }
}

/// A process that records fast and gets every answer at once.
fn flood(world: &mut World, who: usize, class: u32, times: usize) {
    for _ in 0..times {
        world.fill(who, class);
        world.deliver_to_parent(who);
        world.deliver_to_child(who);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, ..ProptestConfig::default() })]

    #[test]
    fn no_history_breaks_the_limit(pages in 0..600_u64, steps in prop::collection::vec(step(), 1..300)) {
        let mut world = World::new(pages * PAGE);
        for step in steps {
            run(&mut world, step);
        }
        world.settle();
    }
}
