//! Tracks for slices that overlap: Perfetto nests the slices of a track, so slices that overlap
//! without nesting need several.
//!
//! Used by [`super::markers`] and [`super::verdicts`]. Slices are given in the order of their
//! starts; a track is used again as soon as its last slice has ended, so there are as many tracks
//! as slices that are open at the same time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::tracks::TrackId;

/// The tracks for the slices of one name. See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Lanes(BinaryHeap<Reverse<(i64, TrackId)>>);

impl Lanes {
    /// The track for a slice. `make` makes a new one. A slice without an end keeps its track.
    pub(super) fn track<E>(
        &mut self,
        start: i64,
        end: Option<i64>,
        make: impl FnOnce() -> Result<TrackId, E>,
    ) -> Result<TrackId, E> {
        let free = self.0.peek().filter(|Reverse((ended, _))| *ended <= start);
        let free = free.map(|Reverse((_, track))| *track);
        let track = match free {
            Some(track) => {
                self.0.pop();
                track
            }
            None => make()?,
        };
        if let Some(end) = end {
            self.0.push(Reverse((end, track)));
        }
        Ok(track)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_of_a_track_do_not_overlap_and_a_free_track_is_used_again() {
        let mut lanes = Lanes::default();
        let mut made = 0;
        let mut track = |start, end| {
            let make = || {
                made += 1;
                Ok::<_, ()>(TrackId(made))
            };
            lanes.track(start, end, make).unwrap().0
        };
        let tracks = [
            track(0, Some(5)),
            track(1, Some(9)),
            track(2, None),
            track(5, Some(6)),
            track(7, Some(8)),
            track(8, Some(9)),
            track(9, Some(9)),
            track(9, Some(9)),
        ];
        assert_eq!(tracks, [1, 2, 3, 1, 1, 1, 1, 1]);
    }
}
