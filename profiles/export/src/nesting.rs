//! Which spans of a thread nest: viewers draw nested spans in one track, and only those.
//!
//! Used by the formats with markers. Times are in nanoseconds.

/// The start and the end of a span, and its index.
pub(super) type Span = (i64, i64, usize);

/// The spans in the order in which they begin. Among spans with the same start, the longest is the
/// outermost and comes first.
pub(super) fn in_order(spans: impl IntoIterator<Item = Span>) -> Vec<Span> {
    let mut order: Vec<Span> = spans.into_iter().collect();
    order.sort_by(|a, b| (a.0, b.1, a.2).cmp(&(b.0, a.1, b.2)));
    order
}

/// For each span of [`in_order`], whether it lies within the nested spans that are open at its
/// start.
pub(super) fn nesting(order: &[Span]) -> Vec<bool> {
    let mut open: Vec<i64> = Vec::new();
    let nests = |(start, end, _): &Span| {
        while open.last().is_some_and(|outer| outer <= start) {
            open.pop();
        }
        let nests = open.last().is_none_or(|outer| end <= outer);
        if nests {
            open.push(*end);
        }
        nests
    };
    order.iter().map(nests).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_spans_that_lie_within_others_nest() {
        let spans = [(0, 10), (2, 4), (3, 5), (4, 6), (8, 12), (0, 20), (6, 6)];
        let order = in_order(spans.iter().zip(0..).map(|(span, at)| (span.0, span.1, at)));
        let nested: Vec<(i64, i64, bool)> = order
            .iter()
            .zip(nesting(&order))
            .map(|((start, end, _), nests)| (*start, *end, nests))
            .collect();
        let expected = [
            (0, 20, true),
            (0, 10, true),
            (2, 4, true),
            (3, 5, false),
            (4, 6, true),
            (6, 6, true),
            (8, 12, false),
        ];
        assert_eq!(nested, expected);
    }
}
