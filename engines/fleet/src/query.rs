//! The queries of a fleet's store: the files in `sql/`.

/// A query. The text of each is a statement with parameters `{name:Type}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FleetQuery {
    /// The stacks of a fleet, with their samples and times.
    Flame,
    /// The functions of a fleet, with their own and total times.
    Top,
    /// The slowest performance groups of each host and version.
    Groups,
    /// What changed between two releases.
    Diff,
    /// The spans that were open when their process ended.
    OpenSpans,
    /// The slowest kinds of spans.
    Spans,
}

impl FleetQuery {
    /// All queries.
    pub const ALL: [Self; 6] = [
        Self::Flame,
        Self::Top,
        Self::Groups,
        Self::Diff,
        Self::OpenSpans,
        Self::Spans,
    ];

    /// The statement.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Flame => include_str!("sql/flame.sql"),
            Self::Top => include_str!("sql/top.sql"),
            Self::Groups => include_str!("sql/groups.sql"),
            Self::Diff => include_str!("sql/diff.sql"),
            Self::OpenSpans => include_str!("sql/open_spans.sql"),
            Self::Spans => include_str!("sql/spans.sql"),
        }
    }

    /// Whether an answer has at most as many rows as the parameter `limit` says. The question about
    /// groups has as many for each host and version.
    pub(super) const fn is_limited(self) -> bool {
        !matches!(self, Self::Groups)
    }

    /// The name of its file, without the ending.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flame => "flame",
            Self::Top => "top",
            Self::Groups => "groups",
            Self::Diff => "diff",
            Self::OpenSpans => "open_spans",
            Self::Spans => "spans",
        }
    }
}

/// Reads a number that ClickHouse writes as a number or, because JavaScript rounds large numbers,
/// as a text. Used by `#[serde(deserialize_with)]` in the rows of answers.
///
/// # Errors
/// The error of `from` if it has neither.
pub fn count<'de, D: serde::Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    #[derive(serde::Deserialize)]
    #[serde(untagged)]
    enum Count {
        Number(u64),
        Text(String),
    }
    match serde::Deserialize::deserialize(from)? {
        Count::Number(number) => Ok(number),
        Count::Text(text) => text.parse().map_err(serde::de::Error::custom),
    }
}
