//! The correction for the number of functions that are tested.
//!
//! Used by [`mod@super::compare`]. On average, one of a hundred unchanged functions has a change
//! outside its 99 % interval. The marked changes are therefore chosen by the procedure of
//! Y. Benjamini and Y. Hochberg ("Controlling the False Discovery Rate: A Practical and Powerful
//! Approach to Multiple Testing", 1995): among the marked changes, at most one in a hundred is
//! expected to be noise. This also holds for tests that depend positively on each other
//! (Y. Benjamini and D. Yekutieli, 2001), such as those of a function and its callers.

/// The limit on the false discovery rate: the expected part of the marked changes that is noise.
pub(super) const FALSE_DISCOVERY_RATE: f64 = 0.01;

/// The adjusted p-values, in the order of `probabilities`. A change is more than noise if its
/// adjusted p-value is at most [`FALSE_DISCOVERY_RATE`].
pub(super) fn adjusted(probabilities: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    let of = |test: usize| probabilities.get(test).copied().unwrap_or(1.0);
    order.sort_by(|one, other| of(*one).total_cmp(&of(*other)));
    let mut adjusted = vec![1.0; probabilities.len()];
    let mut least = 1.0_f64;
    let count = order.len() as f64;
    for (place, test) in order.iter().enumerate().rev() {
        least = least.min(of(*test) * count / (place + 1) as f64);
        if let Some(adjusted) = adjusted.get_mut(*test) {
            *adjusted = least;
        }
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_benjamini_and_hochberg_has_four_discoveries() {
        // Section 3.2 of their paper: 15 tests, of which four are significant at 0.05.
        let probabilities = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
            0.5719, 0.6528, 0.7590, 1.0,
        ];
        let adjusted = adjusted(&probabilities);
        assert!(adjusted.is_sorted());
        assert_eq!(adjusted.iter().filter(|one| **one <= 0.05).count(), 4);
    }

    #[test]
    fn one_test_is_not_adjusted_and_the_order_does_not_matter() {
        assert_eq!(adjusted(&[0.02]), [0.02]);
        assert_eq!(adjusted(&[]), [0.0; 0]);
        let (one, other) = (adjusted(&[0.5, 0.01, 0.02]), adjusted(&[0.01, 0.02, 0.5]));
        assert_eq!(one, [other[2], other[0], other[1]]);
    }

    #[test]
    fn tests_without_changes_are_seldom_marked() {
        let mut random = fastrand::Rng::with_seed(7);
        let has_mark = |_: &i32| {
            let probabilities: Vec<f64> = (0..500).map(|_| random.f64()).collect();
            adjusted(&probabilities)
                .iter()
                .any(|one| *one <= FALSE_DISCOVERY_RATE)
        };
        // 4 of 400 are expected; without the correction, nearly all have a mark.
        assert!((0..400).filter(has_mark).count() <= 12);
    }
}
