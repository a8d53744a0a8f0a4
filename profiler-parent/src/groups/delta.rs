//! The difference of two snapshots. Called by applications.

use std::collections::HashMap;

use super::GroupTotals;
use super::snapshot::{GroupId, GroupRow, GroupsSnapshot, ProcessGroups, RowStatus};

impl GroupsSnapshot {
    /// Returns the increase since `earlier`, field by field and bucket by bucket. A group that is
    /// new since then is compared with zero. A group that has disappeared is listed with its last
    /// totals; a group whose process has merely ended has not disappeared.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut before: HashMap<GroupId, &GroupRow> =
            earlier.rows().map(|(_, row)| (row.id, row)).collect();
        let mut processes: Vec<ProcessGroups> = self
            .processes
            .iter()
            .map(|process| ProcessGroups {
                groups: process
                    .groups
                    .iter()
                    .map(|row| difference(row, before.remove(&row.id)))
                    .collect(),
                ..without_groups(process)
            })
            .collect();
        for gone in earlier.processes.iter() {
            let rows: Vec<GroupRow> = gone
                .groups
                .iter()
                .filter(|row| before.contains_key(&row.id))
                .map(gone_row)
                .collect();
            if rows.is_empty() {
                continue;
            }
            match processes
                .iter_mut()
                .find(|process| process.pool == gone.pool)
            {
                Some(process) => process.groups.extend(rows),
                None => processes.push(ProcessGroups {
                    groups: rows,
                    ..without_groups(gone)
                }),
            }
        }
        let interval = self.at_ns.saturating_sub(earlier.at_ns);
        Self {
            interval_ns: Some(u64::try_from(interval).unwrap_or(0)),
            processes,
            missing: self.missing.clone(),
            ..*self
        }
    }
}

fn without_groups(process: &ProcessGroups) -> ProcessGroups {
    ProcessGroups {
        groups: Vec::new(),
        name: process.name.clone(),
        ..*process
    }
}

fn difference(row: &GroupRow, before: Option<&GroupRow>) -> GroupRow {
    let nothing = GroupTotals::nothing();
    GroupRow {
        totals: row
            .totals
            .since(before.map_or(&nothing, |before| &before.totals)),
        status: if before.is_some() {
            RowStatus::Known
        } else {
            RowStatus::New
        },
        last: Some(row.totals.clone()),
        ..row.clone()
    }
}

fn gone_row(row: &GroupRow) -> GroupRow {
    GroupRow {
        totals: row.totals.since(&row.totals),
        status: RowStatus::Gone,
        last: Some(row.totals.clone()),
        ..row.clone()
    }
}
