//! The tables of the ClickHouse that stores the profiles of many hosts.

/// A table of the store. Its rows are described in [`clickhouse`](crate::clickhouse).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FleetTable {
    /// Stacks: numbers and names.
    Stacks,
    /// Samples of threads.
    Samples,
    /// Markers: intervals, ends of intervals, and instants.
    Spans,
    /// Values of counters over time.
    Counters,
    /// Times of performance groups.
    Groups,
    /// Processes, with the verdicts on their data.
    Processes,
}

impl FleetTable {
    /// All tables, in the order in which a batch is inserted.
    pub const ALL: [Self; 6] = [
        Self::Stacks,
        Self::Samples,
        Self::Spans,
        Self::Counters,
        Self::Groups,
        Self::Processes,
    ];

    /// The name of the table into which rows are inserted.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stacks => "profiler_stacks",
            Self::Samples => "profiler_samples",
            Self::Spans => "profiler_spans",
            Self::Counters => "profiler_counters",
            Self::Groups => "profiler_groups",
            Self::Processes => "profiler_processes",
        }
    }

    /// The statement before the rows of a request.
    pub fn insert_statement(self) -> String {
        format!("INSERT INTO {} FORMAT JSONEachRow", self.name())
    }

    /// Its place in [`Self::ALL`].
    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests {
    use super::FleetTable;

    #[test]
    fn the_index_of_a_table_is_its_place_in_the_list() {
        for (place, table) in FleetTable::ALL.into_iter().enumerate() {
            assert_eq!(table.index(), place);
        }
    }
}
