//! Where each input begins on the time line of the merged profile.
//!
//! Pure. Two inputs that were recorded in the same boot of a machine are aligned by the clock that
//! counts from the boot, which is never set. All others are aligned by their wall clocks.
//! Invariant: the shift of one input moves no other input.

/// The start of an input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Anchor {
    /// In wall time: nanoseconds since 1970.
    pub(super) unix_ns: i64,
    /// On the clocks that its hosts count from their boots.
    pub(super) clocks: Vec<ClockPosition>,
    /// The shift that the caller chooses, in nanoseconds.
    pub(super) shift_ns: i64,
}

/// A position on a clock that counts from the boot of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClockPosition {
    /// Boot and time namespace.
    pub(super) clock: String,
    /// Nanoseconds.
    pub(super) at_ns: i64,
}

/// Where an input begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placed {
    /// Nanoseconds since the start of the merged profile.
    pub(super) offset_ns: i64,
    /// How far it is from the place that its wall clock gives, because it was aligned by a clock of
    /// an earlier input; without the caller's shift.
    pub(super) correction_ns: i64,
}

/// Places all inputs. Returns the start of the merged profile in wall time, which is the start of
/// the first input to begin, and the places.
pub(super) fn place(inputs: &[Anchor]) -> (i64, Vec<Placed>) {
    let mut known: Vec<(&str, i64)> = Vec::new();
    let mut starts = Vec::with_capacity(inputs.len());
    for input in inputs {
        // The difference between the clock and wall time, as for the first input with this clock.
        let by_clock = input.clocks.iter().find_map(|position| {
            let same = known.iter().find(|(clock, _)| *clock == position.clock);
            same.map(|(_, unix)| unix.saturating_add(position.at_ns))
        });
        let start = by_clock.unwrap_or(input.unix_ns);
        for ClockPosition { clock, at_ns } in &input.clocks {
            if !known.iter().any(|(known, _)| known == clock) {
                known.push((clock, start.saturating_sub(*at_ns)));
            }
        }
        starts.push(start);
    }
    let moved = |(input, start): (&Anchor, &i64)| start.saturating_add(input.shift_ns);
    let first = inputs.iter().zip(&starts).map(moved).min().unwrap_or(0);
    let placed = |(input, start): (&Anchor, &i64)| Placed {
        offset_ns: moved((input, start)).saturating_sub(first),
        correction_ns: start.saturating_sub(input.unix_ns),
    };
    (first, inputs.iter().zip(&starts).map(placed).collect())
}

/// Ranges of time that overlap no other range, by their indices. One range alone is not among them.
pub(super) fn apart(ranges: &[Option<(i64, i64)>]) -> Vec<usize> {
    let overlaps = |(from, to): (i64, i64), at: usize| {
        let others = ranges.iter().enumerate().filter(|(other, _)| *other != at);
        others
            .filter_map(|(_, range)| *range)
            .any(|(other_from, other_to)| from <= other_to && other_from <= to)
    };
    let is_apart = |at: &usize| {
        let range = ranges.get(*at).copied().flatten();
        range.is_some_and(|range| !overlaps(range, *at))
    };
    match ranges.iter().flatten().count() {
        0 | 1 => Vec::new(),
        _ => (0..ranges.len()).filter(is_apart).collect(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn anchor(unix_ns: i64, clock: Option<(&str, i64)>) -> Anchor {
        let clocks = clock.map(|(clock, at_ns)| ClockPosition {
            clock: clock.to_owned(),
            at_ns,
        });
        Anchor {
            unix_ns,
            clocks: clocks.into_iter().collect(),
            shift_ns: 0,
        }
    }

    fn offsets(inputs: &[Anchor]) -> Vec<i64> {
        let (_, placed) = place(inputs);
        placed.iter().map(|placed| placed.offset_ns).collect()
    }

    #[test]
    fn sessions_of_one_boot_are_aligned_by_its_clock_even_if_the_wall_clock_was_set() {
        let hour = 3_600_000_000_000;
        let inputs = [
            anchor(1_000, Some(("boot", 50))),
            anchor(1_700, Some(("other boot", 50))),
            anchor(1_600 + hour, Some(("boot", 650))),
        ];
        let (start, placed) = place(&inputs);
        assert_eq!((start, offsets(&inputs)), (1_000, vec![0, 700, 600]));
        assert_eq!(placed[2].correction_ns, -hour);
    }

    #[test]
    fn a_move_by_hand_moves_one_input_only() {
        let mut inputs = [
            anchor(1_000, Some(("boot", 50))),
            anchor(1_200, Some(("boot", 250))),
            anchor(1_300, None),
        ];
        assert_eq!(offsets(&inputs), [0, 200, 300]);
        inputs[0].shift_ns = -40;
        assert_eq!(offsets(&inputs), [0, 240, 340]);
    }

    #[test]
    fn ranges_without_overlap_are_found() {
        let ranges = [Some((0, 10)), Some((11, 20)), Some((20, 25)), None];
        assert_eq!(apart(&ranges), [0]);
        assert!(apart(&ranges[..1]).is_empty());
        assert!(apart(&ranges[3..]).is_empty());
    }

    proptest! {
        #[test]
        fn some_input_begins_at_the_start_and_none_before_it(
            starts in prop::collection::vec((0_i64..1 << 60, -1_000_000_i64..1_000_000), 1..6)
        ) {
            let anchors: Vec<Anchor> = starts.iter().map(|(unix_ns, shift_ns)| Anchor {
                unix_ns: *unix_ns,
                clocks: Vec::new(),
                shift_ns: *shift_ns,
            }).collect();
            let (start, placed) = place(&anchors);
            prop_assert!(placed.iter().any(|placed| placed.offset_ns == 0));
            for (anchor, placed) in anchors.iter().zip(&placed) {
                prop_assert!(placed.offset_ns >= 0);
                prop_assert_eq!(start + placed.offset_ns, anchor.unix_ns + anchor.shift_ns);
            }
        }

        #[test]
        fn placing_in_steps_gives_the_same_places(starts in prop::collection::vec(0_i64..1 << 60, 3)) {
            let [one, two, three] = [starts[0], starts[1], starts[2]].map(|at| anchor(at, None));
            let at_once = place(&[one.clone(), two.clone(), three.clone()]);
            let (both, _) = place(&[one, two]);
            let in_steps = place(&[anchor(both, None), three]);
            prop_assert_eq!(at_once.0, in_steps.0);
            prop_assert_eq!(at_once.1[2].offset_ns, in_steps.1[1].offset_ns);
        }
    }
}
