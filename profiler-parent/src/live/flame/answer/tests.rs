//! Tests of the answer to a request.

use super::*;

#[test]
fn the_rows_with_the_largest_values_are_kept_in_their_order() {
    let rows = vec![5, 1, 9, 9, 2, 7];
    assert_eq!(largest(rows.clone(), 3, |row| *row), [9, 9, 7]);
    assert_eq!(largest(rows.clone(), 10, |row| *row), rows);
    assert_eq!(largest(vec![4, 4, 4], 2, |row| *row), [4, 4]);
}
