//! Tests of the machine's rules, one by one, and against a model that checks every millisecond.

use proptest::prelude::*;

use super::*;

const PATIENCE: Patience = Patience {
    ask_every: Millis(10),
    progress_timeout: Millis(50),
    deadline: Millis(200),
};

/// For the model: acts come at even times, so that no timeout coincides with an act, and the order
/// of events within one instant does not matter.
const ODD: Patience = Patience {
    ask_every: Millis(10),
    progress_timeout: Millis(51),
    deadline: Millis(201),
};

fn at(millis: u64) -> Millis {
    Millis::new(millis)
}

fn gather(children: &[u32]) -> Gather<u32> {
    Gather::new(at(0), PATIENCE, children.iter().copied())
}

fn progress(child: u32, percent: u64, location: &str) -> Input<u32> {
    Input::Progress {
        child,
        proportion: Proportion::from_raw(((percent << 31) / 100) as u32),
        location: location.into(),
    }
}

fn written(child: u32) -> Input<u32> {
    let outcome = GatherOutcome::Written {
        length: 1,
        summary: Default::default(),
    };
    Input::Profile { child, outcome }
}

fn give_up(child: u32, why: Why) -> Output<u32> {
    Output::GiveUp { child, why }
}

#[test]
fn it_finishes_at_once_without_children() {
    let mut gather = gather(&[]);
    assert_eq!(gather.next_wakeup(), None);
    assert_eq!(gather.step(at(0), Input::Tick), [Output::Finished]);
    assert_eq!(gather.step(at(1), Input::Tick), []);
    assert!(gather.is_finished());
}

#[test]
fn it_finishes_when_all_parts_are_accepted() {
    let mut gather = gather(&[1, 2]);
    assert_eq!(gather.step(at(1), written(2)), [Output::Accept(2)]);
    assert_eq!(gather.pending().collect::<Vec<_>>(), [&1]);
    assert_eq!(
        gather.step(at(2), written(1)),
        [Output::Accept(1), Output::Finished]
    );
    assert_eq!(gather.next_wakeup(), None);
}

#[test]
fn a_child_is_asked_at_intervals_and_never_twice_at_once() {
    let mut gather = gather(&[1]);
    assert_eq!(gather.next_wakeup(), Some(at(10)));
    assert_eq!(gather.step(at(9), Input::Tick), []);
    assert_eq!(
        gather.step(at(10), Input::Tick),
        [Output::RequestProgress(1)]
    );
    assert_eq!(
        gather.step(at(30), Input::Tick),
        [],
        "the first is unanswered"
    );
    assert_eq!(gather.next_wakeup(), Some(at(50)));
    assert_eq!(
        gather.step(at(31), progress(1, 1, "a")),
        [Output::RequestProgress(1)]
    );
    assert_eq!(gather.step(at(32), progress(1, 2, "a")), []);
    assert_eq!(gather.next_wakeup(), Some(at(41)));
}

fn hung_up(child: u32) -> Input<u32> {
    Input::HungUp {
        child,
        message: "gone".into(),
    }
}

fn patient(children: &[u32]) -> Gather<u32> {
    Gather::new(at(0), Patience::default(), children.iter().copied())
}

#[test]
fn a_death_after_a_closed_channel_is_the_reported_reason() {
    let mut gather = patient(&[1]);
    let crashed = Why::Crashed {
        status: "signal 9 (SIGKILL)".into(),
    };
    assert_eq!(gather.step(at(1), hung_up(1)), []);
    let died = Input::Died {
        child: 1,
        why: crashed.clone(),
    };
    assert_eq!(
        gather.step(at(200), died),
        [give_up(1, crashed), Output::Finished]
    );
}

#[test]
fn a_closed_channel_without_a_death_is_a_refusal_after_a_moment() {
    let mut gather = patient(&[1, 2]);
    gather.step(at(1), hung_up(1));
    assert_eq!(
        gather.next_wakeup(),
        Some(at(1).after(DEATH_NEWS).min(at(250)))
    );
    let refused = Why::Refused {
        message: "gone".into(),
    };
    let outputs = gather.step(at(251), Input::Tick);
    assert!(outputs.contains(&give_up(1, refused)), "{outputs:?}");
    assert!(
        !outputs.contains(&Output::RequestProgress(1)),
        "a child with a closed channel is not asked"
    );
}

#[test]
fn a_closed_channel_is_reported_instead_of_a_timeout() {
    let mut gather = gather(&[1]);
    gather.step(at(1), hung_up(1));
    let refused = Why::Refused {
        message: "gone".into(),
    };
    assert_eq!(
        gather.step(at(50), Input::Tick),
        [give_up(1, refused), Output::Finished]
    );
}

#[test]
fn a_channel_that_closes_after_the_part_was_accepted_changes_nothing() {
    let mut gather = patient(&[1, 2]);
    assert_eq!(gather.step(at(1), written(1)), [Output::Accept(1)]);
    assert_eq!(gather.step(at(2), hung_up(1)), []);
    assert_eq!(
        gather.step(
            at(3),
            Input::Died {
                child: 1,
                why: Why::Gone
            }
        ),
        []
    );
    assert_eq!(
        gather.step(at(260), hung_up(1)),
        [Output::RequestProgress(2)]
    );
}

#[test]
fn a_frozen_child_is_given_up_alone() {
    let mut gather = gather(&[1, 2]);
    gather.step(at(40), progress(2, 5, "a"));
    let outputs = gather.step(at(50), Input::Tick);
    assert!(outputs.contains(&give_up(1, Why::Frozen)), "{outputs:?}");
    assert_eq!(gather.pending().collect::<Vec<_>>(), [&2]);
}

#[test]
fn a_slow_child_that_makes_progress_is_kept_until_the_deadline() {
    let mut gather = gather(&[1]);
    for step in 1..=4 {
        assert!(
            !gather
                .step(at(step * 45), progress(1, step, "a"))
                .contains(&give_up(1, Why::Frozen))
        );
    }
    assert_eq!(
        gather.next_wakeup(),
        Some(at(200)),
        "a request is unanswered, so only the deadline is left"
    );
    assert_eq!(
        gather.step(at(200), Input::Tick),
        [give_up(1, Why::Late), Output::Finished]
    );
}

#[test]
fn a_repeated_or_lower_proportion_is_not_progress_but_a_new_location_is() {
    let mut gather = gather(&[1, 2, 3, 4]);
    for child in 1..=4 {
        gather.step(at(1), progress(child, 50, "a"));
    }
    gather.step(at(40), progress(1, 50, "a"));
    gather.step(at(40), progress(2, 40, "a"));
    gather.step(at(41), progress(2, 50, "a"));
    gather.step(at(42), progress(3, 40, "b"));
    let invalid = Input::Progress {
        child: 4,
        proportion: Proportion::INVALID,
        location: "none".into(),
    };
    gather.step(at(43), invalid);
    let outputs = gather.step(at(51), Input::Tick);
    let gone: Vec<_> = outputs
        .into_iter()
        .filter(|output| matches!(output, Output::GiveUp { .. }))
        .collect();
    assert_eq!(gone, [1, 2, 4].map(|child| give_up(child, Why::Frozen)));
}

#[test]
fn children_that_die_or_refuse_are_given_up_with_the_reason() {
    let mut gather = gather(&[1, 2, 3]);
    let died = Input::Died {
        child: 1,
        why: Why::Exited { status: 3 },
    };
    assert_eq!(
        gather.step(at(1), died),
        [give_up(1, Why::Exited { status: 3 })]
    );
    let failed = Input::Profile {
        child: 2,
        outcome: GatherOutcome::Failed("no disk".into()),
    };
    let refused = |message: &str| Why::Refused {
        message: message.into(),
    };
    assert_eq!(gather.step(at(1), failed), [give_up(2, refused("no disk"))]);
    let rejected = Input::Rejected {
        child: 3,
        message: "cut".into(),
    };
    assert_eq!(
        gather.step(at(1), rejected),
        [give_up(3, refused("cut")), Output::Finished]
    );
}

#[test]
fn answers_after_giving_up_change_nothing() {
    let mut gather = gather(&[1, 2]);
    gather.step(at(40), progress(2, 5, "a"));
    gather.step(at(50), Input::Tick);
    for input in [
        progress(1, 99, "b"),
        written(1),
        Input::Died {
            child: 1,
            why: Why::Gone,
        },
        Input::Rejected {
            child: 1,
            message: "late".into(),
        },
        written(7),
    ] {
        assert_eq!(gather.step(at(50), input), []);
    }
}

#[test]
fn an_accepted_part_may_be_rejected_once_and_its_child_may_die() {
    let mut gather = gather(&[1]);
    assert_eq!(
        gather.step(at(1), written(1)),
        [Output::Accept(1), Output::Finished]
    );
    assert_eq!(
        gather.step(
            at(2),
            Input::Died {
                child: 1,
                why: Why::Gone
            }
        ),
        []
    );
    let rejected = Input::Rejected {
        child: 1,
        message: "bad".into(),
    };
    let refused = give_up(
        1,
        Why::Refused {
            message: "bad".into(),
        },
    );
    assert_eq!(gather.step(at(3), rejected.clone()), [refused]);
    assert_eq!(gather.step(at(4), rejected), []);
}

#[test]
fn a_part_that_arrives_before_the_deadline_was_noticed_is_accepted() {
    let mut gather = gather(&[1]);
    assert_eq!(
        gather.step(at(5_000), written(1)),
        [Output::Accept(1), Output::Finished]
    );
}

#[test]
fn a_clock_that_goes_back_counts_as_stopped() {
    let mut gather = gather(&[1]);
    gather.step(at(40), progress(1, 1, "a"));
    gather.step(at(3), progress(1, 2, "a"));
    assert!(
        !gather
            .step(at(89), Input::Tick)
            .contains(&give_up(1, Why::Frozen))
    );
    assert!(
        gather
            .step(at(90), Input::Tick)
            .contains(&give_up(1, Why::Frozen))
    );
}

/// An act of one child of the model, at some millisecond.
#[derive(Clone, Debug)]
enum Act {
    Report(u64, u8),
    Written,
    Failed,
    Die,
}

fn even_time() -> impl Strategy<Value = u64> {
    (0_u64..110).prop_map(|half| half * 2)
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        12 => (0_u64..6, 0_u8..2).prop_map(|(percent, location)| Act::Report(percent, location)),
        1 => Just(Act::Written),
        1 => Just(Act::Failed),
        1 => Just(Act::Die),
    ]
}

fn input(child: u32, act: &Act) -> Input<u32> {
    match act {
        Act::Report(percent, location) => progress(child, *percent, &location.to_string()),
        Act::Written => written(child),
        Act::Failed => Input::Profile {
            child,
            outcome: GatherOutcome::Failed("no".into()),
        },
        Act::Die => Input::Died {
            child,
            why: Why::Gone,
        },
    }
}

/// The outcome and time of a child by its acts alone, checked every millisecond.
fn model(acts: &[(u64, Act)]) -> (u64, Output<u32>) {
    let mut best = 0;
    let mut location = String::new();
    let mut moved = 0;
    for now in 0.. {
        for (_, act) in acts.iter().filter(|(time, _)| *time == now) {
            match act {
                Act::Report(percent, new) => {
                    if *percent > best || new.to_string() != location {
                        moved = now;
                    }
                    best = best.max(*percent);
                    location = new.to_string();
                }
                Act::Written => return (now, Output::Accept(0)),
                Act::Failed => {
                    return (
                        now,
                        give_up(
                            0,
                            Why::Refused {
                                message: "no".into(),
                            },
                        ),
                    );
                }
                Act::Die => return (now, give_up(0, Why::Gone)),
            }
        }
        if now == ODD.deadline.get() {
            return (now, give_up(0, Why::Late));
        }
        if now == moved + ODD.progress_timeout.get() {
            return (now, give_up(0, Why::Frozen));
        }
    }
    unreachable!("the deadline ends the loop")
}

/// The same output, about child 0.
fn anonymous(output: &Output<u32>) -> Option<(u32, Output<u32>)> {
    match output {
        Output::Accept(child) => Some((*child, Output::Accept(0))),
        Output::GiveUp { child, why } => Some((*child, give_up(0, why.clone()))),
        Output::RequestProgress(_) | Output::Finished => None,
    }
}

proptest! {
    /// The machine is called only for inputs and at its wakeups; the result of every child must
    /// equal the model's, to the millisecond, regardless of the other children.
    #[test]
    fn every_child_has_the_same_outcome_as_if_it_were_alone(
        mut acts in prop::collection::vec(prop::collection::vec((even_time(), act()), 0..25), 1..5)
    ) {
        acts.iter_mut().for_each(|acts| acts.sort_by_key(|(time, _)| *time));
        let keys: Vec<u32> = (0..).take(acts.len()).collect();
        let mut gather = Gather::new(at(0), ODD, keys.iter().copied());
        let mut fates = BTreeMap::new();
        let mut unanswered: BTreeMap<u32, u64> = BTreeMap::new();
        let mut finished = None;
        for now in 0..=220 {
            let due = keys.iter().zip(&acts).flat_map(|(key, acts)| {
                acts.iter().filter(|(time, _)| *time == now).map(|(_, act)| input(*key, act))
            });
            let mut inputs: Vec<_> = due.collect();
            if gather.next_wakeup().is_some_and(|wakeup| wakeup <= at(now)) {
                inputs.push(Input::Tick);
            }
            for input in inputs {
                if let Input::Progress { child, .. } = &input {
                    unanswered.remove(child);
                }
                for output in gather.step(at(now), input) {
                    if let Output::RequestProgress(child) = &output {
                        prop_assert!(unanswered.insert(*child, now).is_none(), "asked twice at once");
                        prop_assert!(!fates.contains_key(child));
                    }
                    if output == Output::Finished {
                        prop_assert_eq!(finished.replace(now), None);
                    }
                    if let Some((child, fate)) = anonymous(&output) {
                        prop_assert_eq!(fates.insert(child, (now, fate)), None, "left twice");
                    }
                }
                prop_assert!(gather.next_wakeup().is_none_or(|wakeup| wakeup > at(now)), "the driver would spin");
            }
        }
        for (key, acts) in keys.iter().zip(&acts) {
            prop_assert_eq!(fates.get(key), Some(&model(acts)));
        }
        prop_assert_eq!(finished, fates.values().map(|(time, _)| *time).max());
        prop_assert_eq!(fates.len(), keys.len());
    }
}
