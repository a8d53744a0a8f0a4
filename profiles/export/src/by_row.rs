//! Values for some rows of a table, found by the row's number instead of a hash.
//!
//! Used by the formats and by [`super::slices`], per thread. Invariant: clearing takes time in
//! proportion to the values, not to the table: many small threads with one large table are no
//! slower than one large thread.

/// Values for some rows of a table. See the [module](self).
#[derive(Debug)]
pub(super) struct ByRow<T> {
    /// By row.
    values: Vec<Option<T>>,
    /// The rows that have a value.
    rows: Vec<u32>,
    /// Whether the table is that of all threads.
    is_shared: bool,
}

impl<T> Default for ByRow<T> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            rows: Vec::new(),
            is_shared: false,
        }
    }
}

impl<T> ByRow<T> {
    /// Removes all values, and prepares for a table of this length.
    pub(super) fn begin(&mut self, length: usize) {
        for row in self.rows.drain(..) {
            if let Some(value) = self.values.get_mut(row as usize) {
                *value = None;
            }
        }
        self.values.resize_with(length, || None);
    }

    /// Begins a thread, whose table has this length, and is its own or that of all threads. Values
    /// for the table of all threads are kept.
    pub(super) fn begin_thread(&mut self, length: usize, has_own_tables: bool) {
        if has_own_tables || !self.is_shared {
            self.begin(length);
        }
        self.is_shared = !has_own_tables;
    }

    #[inline]
    pub(super) fn get(&self, row: u32) -> Option<&T> {
        self.values.get(row as usize)?.as_ref()
    }

    /// The value of a row, which is made if there is none; `None` if the table has no such row.
    #[inline]
    pub(super) fn get_or_insert_with(
        &mut self,
        row: u32,
        make: impl FnOnce() -> T,
    ) -> Option<&mut T> {
        let place = self.values.get_mut(row as usize)?;
        if place.is_none() {
            self.rows.push(row);
        }
        Some(place.get_or_insert_with(make))
    }

    /// Sets the value of a row. Does nothing if the table has no such row.
    #[inline]
    pub(super) fn insert(&mut self, row: u32, value: T) {
        if let Some(place) = self.values.get_mut(row as usize) {
            if place.is_none() {
                self.rows.push(row);
            }
            *place = Some(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_of_one_table_only() {
        let mut values = ByRow::default();
        values.begin(2);
        values.insert(1, 7);
        values.insert(2, 8);
        assert_eq!(
            [0, 1, 2].map(|row| values.get(row).copied()),
            [None, Some(7), None]
        );
        assert_eq!(values.get_or_insert_with(0, || 3), Some(&mut 3));
        assert_eq!(values.get_or_insert_with(1, || 3), Some(&mut 7));
        assert_eq!(values.get_or_insert_with(9, || 3), None);
        values.begin(3);
        assert_eq!([0, 1, 2].map(|row| values.get(row).copied()), [None; 3]);
    }

    #[test]
    fn values_of_the_table_of_all_threads_are_kept() {
        let mut values = ByRow::default();
        let mut kept = |length, has_own_tables| {
            values.begin_thread(length, has_own_tables);
            let kept = values.get(0).copied();
            values.insert(0, length);
            kept
        };
        let threads = [
            (2, true),
            (2, true),
            (3, false),
            (3, false),
            (2, true),
            (3, false),
        ];
        let kept = threads.map(|(length, has_own_tables)| kept(length, has_own_tables));
        assert_eq!(kept, [None, None, None, Some(3), None, None]);
    }
}
