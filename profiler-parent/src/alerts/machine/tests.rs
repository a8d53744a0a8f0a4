//! Tests of the alert rules, one by one and against a naive model that keeps all runs.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

const MS: i64 = 1_000_000;

fn run(ended_ms: i64, duration_ms: u64) -> Run {
    Run {
        ended: SessionNs(ended_ms * MS),
        duration_ns: duration_ms * 1_000_000,
    }
}

fn peaks(id: u32, runs: &[Run]) -> GroupPeaks<u32, u32> {
    let name = format!("group {id}");
    GroupPeaks {
        id,
        process: 0,
        kind: "plugin".to_owned(),
        name,
        runs: runs.to_vec(),
        threads: std::collections::BTreeMap::new(),
        blocking_ns: 0,
    }
}

fn machine(rules: AlertRules) -> Machine<u32, u32> {
    let mut machine = Machine::new(rules, SessionNs(0));
    assert!(machine.poll(SessionNs(0), [peaks(1, &[])]).is_empty());
    machine
}

fn at(
    machine: &mut Machine<u32, u32>,
    ms: i64,
    groups: Vec<GroupPeaks<u32, u32>>,
) -> Vec<(u32, u64)> {
    machine
        .poll(SessionNs(ms * MS), groups)
        .iter()
        .map(|draft| (draft.id, draft.highest_ns / 1_000_000))
        .collect()
}

#[test]
fn a1_a_run_over_the_threshold_raises_one_alert_and_a_shorter_run_none() {
    let mut machine = machine(AlertRules::default());
    let runs = [run(100, 100)];
    assert_eq!(
        at(
            &mut machine,
            150,
            vec![peaks(1, &runs), peaks(2, &[run(120, 30)])]
        ),
        []
    );
    assert_eq!(
        at(
            &mut machine,
            1149,
            vec![peaks(1, &runs), peaks(2, &[run(120, 30)])]
        ),
        []
    );
    assert_eq!(
        at(&mut machine, 1150, vec![peaks(1, &runs), peaks(2, &[])]),
        [(1, 100)]
    );
    // The same run is still shown.
    assert_eq!(at(&mut machine, 9000, vec![peaks(1, &runs)]), []);
    assert_eq!(at(&mut machine, 20_000, vec![peaks(1, &runs)]), []);
}

#[test]
fn a1_a_run_of_exactly_the_threshold_is_too_long_and_groups_and_kinds_have_own_thresholds() {
    let rules = AlertRules::default()
        .threshold(Duration::from_millis(50))
        .threshold_of_kind("tenant", Some(Duration::from_millis(10)))
        .threshold_of_group("group 3", None)
        .buffering(Duration::ZERO);
    let mut machine = machine(rules);
    let tenant = |id, runs: &[Run]| GroupPeaks {
        kind: "tenant".to_owned(),
        ..peaks(id, runs)
    };
    let process = |id, runs: &[Run]| GroupPeaks {
        kind: "process".to_owned(),
        ..peaks(id, runs)
    };
    let groups = vec![
        peaks(1, &[run(5, 50)]),
        peaks(2, &[run(5, 49)]),
        peaks(3, &[run(5, 900)]),
        tenant(4, &[run(5, 10)]),
        process(5, &[run(5, 900)]),
    ];
    assert_eq!(at(&mut machine, 10, groups), [(1, 50), (4, 10)]);
}

#[test]
fn a2_many_slow_runs_give_one_alert_per_period_with_the_maximum_which_then_begins_anew() {
    let mut machine = machine(AlertRules::default());
    let mut alerts = Vec::new();
    for step in 1..=60 {
        let now = step * 50;
        let duration = if step == 7 {
            200
        } else {
            70 + u64::try_from(step).unwrap() % 3
        };
        alerts.extend(at(&mut machine, now, vec![peaks(1, &[run(now, duration)])]));
    }
    assert_eq!(alerts, [(1, 200), (1, 72)]);
}

#[test]
fn a5_the_most_janky_comes_first() {
    let mut machine = machine(AlertRules::default().buffering(Duration::ZERO));
    let groups = vec![
        peaks(1, &[run(5, 70)]),
        peaks(2, &[run(5, 900)]),
        peaks(3, &[run(5, 300)]),
    ];
    assert_eq!(at(&mut machine, 10, groups), [(2, 900), (3, 300), (1, 70)]);
}

#[test]
fn a5_a_process_warms_up_first() {
    let rules = AlertRules::default()
        .warm_up(Duration::from_millis(500))
        .buffering(Duration::ZERO);
    let mut machine = machine(rules);
    assert_eq!(at(&mut machine, 600, vec![peaks(1, &[run(499, 400)])]), []);
    let late = |id, runs: &[Run]| GroupPeaks {
        process: 7,
        ..peaks(id, runs)
    };
    let groups = |old: Run, new: Run| vec![peaks(1, &[old]), late(2, &[new])];
    assert_eq!(
        at(&mut machine, 1000, groups(run(990, 80), run(995, 80))),
        [(1, 80)]
    );
    assert_eq!(
        at(&mut machine, 1600, groups(run(990, 80), run(1500, 90))),
        [(2, 90)]
    );
    assert_eq!(machine.withheld().warm_up, 2);
}

#[test]
fn a4_a_slow_run_in_the_first_group_of_a_process_raises_an_alert() {
    let mut machine = machine(AlertRules::default().buffering(Duration::ZERO));
    let groups = || {
        vec![GroupPeaks {
            process: 7,
            ..peaks(2, &[run(900, 100)])
        }]
    };
    assert_eq!(
        at(&mut machine, 1000, groups()),
        [(2, 100)],
        "no warm-up is set"
    );
    let rules = AlertRules::default()
        .warm_up(Duration::from_millis(500))
        .buffering(Duration::ZERO);
    let mut machine = self::machine(rules);
    machine.meet(SessionNs(100 * MS), [7]);
    assert_eq!(at(&mut machine, 100, Vec::new()), []);
    machine.meet(SessionNs(1000 * MS), [7]);
    assert_eq!(
        at(&mut machine, 1000, groups()),
        [(2, 100)],
        "the process was present long before its first group"
    );
}

#[test]
fn a5_a_collection_with_too_many_slow_groups_is_withheld() {
    let mut machine = machine(AlertRules::default().at_once(2).buffering(Duration::ZERO));
    let slow = |count: u32, ended| {
        (0..count)
            .map(|id| peaks(id, &[run(ended, 80)]))
            .collect::<Vec<_>>()
    };
    assert_eq!(at(&mut machine, 10, slow(3, 5)), []);
    assert_eq!(at(&mut machine, 20, slow(2, 15)).len(), 2);
    assert_eq!(machine.withheld().at_once, 3);
}

#[test]
fn a5_alerts_for_groups_of_one_name_are_not_repeated_too_soon_in_any_process() {
    let rules = AlertRules::default()
        .repeat(Duration::from_secs(1))
        .buffering(Duration::ZERO);
    let mut machine = machine(rules);
    let twin = |runs: &[Run]| GroupPeaks {
        process: 9,
        name: "group 1".to_owned(),
        ..peaks(2, runs)
    };
    assert_eq!(
        at(
            &mut machine,
            10,
            vec![peaks(1, &[run(5, 80)]), twin(&[run(5, 90)])]
        ),
        [(2, 90), (1, 80)]
    );
    assert_eq!(
        at(
            &mut machine,
            900,
            vec![peaks(1, &[run(800, 80)]), twin(&[run(5, 90)])]
        ),
        []
    );
    assert_eq!(
        at(
            &mut machine,
            1010,
            vec![peaks(1, &[run(1005, 80)]), twin(&[run(5, 90)])]
        ),
        [(1, 80)]
    );
    assert_eq!(machine.withheld().repeat, 1);
}

#[test]
fn an_alert_spans_its_runs_and_has_the_waiting_time_since_the_previous_alert() {
    let mut machine = machine(AlertRules::default().buffering(Duration::from_millis(100)));
    let waited = |runs: &[Run], ms: u64| GroupPeaks {
        blocking_ns: ms * 1_000_000,
        ..peaks(1, runs)
    };
    assert!(
        machine
            .poll(SessionNs(300 * MS), [waited(&[run(300, 100)], 40)])
            .is_empty()
    );
    let drafts = machine.poll(
        SessionNs(400 * MS),
        [waited(&[run(300, 100), run(390, 80)], 70)],
    );
    let [draft] = &drafts[..] else {
        panic!("{drafts:?}")
    };
    assert_eq!(
        (draft.from, draft.to, draft.runs),
        (SessionNs(200 * MS), SessionNs(390 * MS), 2)
    );
    assert_eq!(draft.blocking_ns, 70_000_000);
    assert!(
        machine
            .poll(SessionNs(500 * MS), [waited(&[run(495, 90)], 75)])
            .is_empty()
    );
    let drafts = machine.poll(SessionNs(600 * MS), [waited(&[run(495, 90)], 90)]);
    assert_eq!(drafts[0].blocking_ns, 20_000_000);
}

#[test]
fn groups_that_are_gone_are_forgotten() {
    let rules = AlertRules::default()
        .buffering(Duration::ZERO)
        .threshold(Duration::from_secs(1));
    let mut machine = machine(rules);
    let mut show = |step: i64, runs: &[Run]| {
        let number = u32::try_from(step).unwrap();
        at(
            &mut machine,
            step * 1_000,
            vec![GroupPeaks {
                process: number,
                ..peaks(number, runs)
            }],
        );
        (machine.groups.len(), machine.pending.len())
    };
    let quiet = (1..100).map(|step| show(step, &[])).last();
    assert_eq!(
        quiet,
        Some((1, 0)),
        "a group without runs is forgotten at once"
    );
    let busy = (100..200)
        .map(|step| show(step, &[run(step * 1_000, 5)]))
        .last();
    assert_eq!(
        busy,
        Some((11, 0)),
        "the groups of the last ten seconds and of this poll"
    );
}

#[test]
fn a5_invented_groups_take_bounded_memory_and_the_surplus_is_counted() {
    let rules = AlertRules::default()
        .repeat(Duration::from_secs(3600))
        .buffering(Duration::ZERO);
    let mut machine = Machine::<u32, u32>::new(rules, SessionNs(0));
    let mut alerts = 0;
    for step in 0..20 {
        let groups = (step * 1_000..step * 1_000 + 1_000).map(|id| peaks(id, &[run(1, 80)]));
        let honest = GroupPeaks {
            process: 1,
            ..peaks(1_000_000 + step, &[run(1, 90)])
        };
        let raised = at(
            &mut machine,
            i64::from(step) + 1,
            groups.chain([honest]).collect(),
        );
        assert_eq!(
            raised.first(),
            Some(&(1_000_000 + step, 90)),
            "the honest process was crowded out"
        );
        alerts += raised.len();
        assert!(machine.last.len() <= MAX_REMEMBERED && machine.pending.is_empty());
        assert!(machine.pending_of.is_empty());
    }
    assert_eq!(
        (alerts, machine.withheld().crowded),
        (20 * (MAX_OF_PROCESS + 1), 20 * (1_000 - 512))
    );
    assert_eq!(machine.last.len(), MAX_REMEMBERED);
    let oldest = machine.last.values().min().unwrap().0 / MS;
    assert!(oldest > 10, "the latest are remembered: {oldest}");
}

#[test]
fn a5_a_long_collection_holds_a_bounded_number_of_groups() {
    let mut machine = machine(AlertRules::default().buffering(Duration::from_secs(60)));
    for step in 0..100_u32 {
        // Each poll shows other groups, of twenty processes.
        let groups = (0..1_000).map(|n| GroupPeaks {
            process: n % 20,
            ..peaks(10 + step * 1_000 + n, &[run(1, 80)])
        });
        assert_eq!(at(&mut machine, i64::from(step) + 1, groups.collect()), []);
    }
    assert_eq!(machine.pending.len(), MAX_PENDING);
    assert_eq!(machine.withheld().crowded, 100_000 - MAX_PENDING as u64);
}

/// A run, and the time of the poll that showed it first.
type Shown = (i64, u32, Run);

/// The model: computes the alerts by searching all runs that polls ever showed.
fn model(
    shown: &[Shown],
    polls: &[i64],
    buffering: i64,
    at_once: usize,
    repeat: i64,
) -> Vec<(i64, u32, u64)> {
    let slow: Vec<&Shown> = shown
        .iter()
        .filter(|(_, _, run)| run.duration_ns >= 64_000_000)
        .collect();
    let mut alerts: Vec<(i64, u32, u64)> = Vec::new();
    let mut from = i64::MIN;
    while let Some(first) = slow
        .iter()
        .map(|(seen, ..)| *seen)
        .filter(|seen| *seen > from)
        .min()
    {
        let Some(closes) = polls
            .iter()
            .copied()
            .find(|poll| *poll >= first + buffering)
        else {
            break;
        };
        let mine = slow
            .iter()
            .filter(|(seen, ..)| *seen > from && *seen <= closes);
        let mut highest: BTreeMap<u32, u64> = BTreeMap::new();
        mine.for_each(|(_, id, run)| {
            let best = highest.entry(*id).or_default();
            *best = (*best).max(run.duration_ns);
        });
        from = closes;
        if highest.len() > at_once {
            continue;
        }
        let is_late = |id: u32| {
            alerts
                .iter()
                .all(|(last, other, _)| *other != id || closes >= last + repeat)
        };
        let mut now: Vec<_> = highest
            .into_iter()
            .filter(|(id, _)| is_late(*id))
            .map(|(id, ns)| (closes, id, ns))
            .collect();
        now.sort_by_key(|(_, id, ns)| (std::cmp::Reverse(*ns), *id));
        alerts.extend(now);
    }
    alerts
}

proptest! {
    #[test]
    fn a2_alerts_equal_those_of_a_model_that_keeps_all_runs(
        steps in prop::collection::vec((1_i64..400, prop::collection::vec((0_u32..4, 40_u64..120), 0..4)), 1..40),
        buffering in 0_i64..1500,
        at_once in 1_usize..5,
        repeat in 0_i64..3000,
    ) {
        let rules = AlertRules::default()
            .buffering(Duration::from_millis(u64::try_from(buffering).unwrap()))
            .repeat(Duration::from_millis(u64::try_from(repeat).unwrap()))
            .at_once(at_once);
        let mut machine = Machine::new(rules, SessionNs(0));
        let (mut now, mut latest): (i64, BTreeMap<u32, Vec<Run>>) = (0, BTreeMap::new());
        let mut shown = Vec::new();
        let mut polls = Vec::new();
        let mut alerts = Vec::new();
        for (wait, runs) in steps {
            now += wait;
            polls.push(now);
            for (place, (id, duration)) in (0_i64..).zip(runs) {
                // Runs are unique; the last three of a group are shown.
                let run = Run { ended: SessionNs(now * MS + place), duration_ns: duration * 1_000_000 };
                let shows = latest.entry(id).or_default();
                shows.push(run);
                shown.push((now, id, run));
            }
            let all = (0..4).map(|id| peaks(id, latest.get(&id).map(Vec::as_slice).unwrap_or_default()));
            let drafts = machine.poll(SessionNs(now * MS), all.collect::<Vec<_>>());
            alerts.extend(drafts.into_iter().map(|draft| (now, draft.id, draft.highest_ns)));
            latest.values_mut().for_each(|runs| drop(runs.drain(..runs.len().saturating_sub(3))));
        }
        prop_assert_eq!(alerts, model(&shown, &polls, buffering, at_once, repeat));
    }
}

#[test]
fn a2_a_run_raises_one_alert_although_some_polls_miss_its_process() {
    let mut machine = machine(AlertRules::default().buffering(Duration::ZERO));
    let shown = || {
        vec![GroupPeaks {
            blocking_ns: 5,
            ..peaks(1, &[run(100, 100)])
        }]
    };
    assert_eq!(at(&mut machine, 150, shown()), [(1, 100)]);
    // One missed poll, several, very many, and one after which there was no poll for long.
    for (missing, again) in [
        (350, 550),
        (4_000, 8_000),
        (9_000, 60_000),
        (200_000, 200_200),
    ] {
        assert_eq!(at(&mut machine, missing, vec![]), []);
        assert_eq!(at(&mut machine, again, shown()), [], "{again}");
    }
    for missing in [201_000, 206_000, 211_000, 216_000] {
        assert_eq!(at(&mut machine, missing, vec![]), []);
    }
    assert_eq!(machine.groups.len(), 0, "forgotten");
    let later = GroupPeaks {
        blocking_ns: 5,
        ..peaks(1, &[run(100, 100), run(211_500, 90)])
    };
    assert_eq!(
        at(&mut machine, 217_000, vec![later]),
        [(1, 90)],
        "a run during the absence raises an alert"
    );
}

#[test]
fn a5_a_process_that_is_missing_from_a_poll_does_not_warm_up_again() {
    let rules = AlertRules::default()
        .warm_up(Duration::from_millis(500))
        .buffering(Duration::ZERO);
    let mut machine = machine(rules);
    for now in [1_000, 1_200] {
        assert_eq!(at(&mut machine, now, vec![]), []);
    }
    assert_eq!(
        at(&mut machine, 1_400, vec![peaks(1, &[run(1_390, 100)])]),
        [(1, 100)]
    );
}

#[test]
fn a5_memory_for_absent_groups_and_processes_is_bounded() {
    let mut machine = machine(AlertRules::default());
    for round in 0..20_u32 {
        let made_up = |number: u32| peaks(round * 1_000 + number, &[run(1, 2)]);
        at(
            &mut machine,
            10 + i64::from(round),
            (0..1_000).map(made_up).collect(),
        );
    }
    assert!(
        machine.groups.len() <= MAX_ABSENT + 1_000,
        "{}",
        machine.groups.len()
    );
    for process in 0..20_000_u32 {
        machine.meet(SessionNs(i64::from(process) * MS), [process]);
        machine.poll(SessionNs(i64::from(process) * MS), []);
    }
    assert!(
        machine.processes.len() <= MAX_PROCESSES + 1,
        "{}",
        machine.processes.len()
    );
}
