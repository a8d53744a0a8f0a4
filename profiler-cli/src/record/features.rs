//! `--features`: parses the feature names that a profile shows.

use profiler_parent::core::session::Features;

/// All features that have a name.
fn all() -> impl Iterator<Item = (&'static str, Features)> {
    let bits = (0..u64::BITS).map(|bit| Features::from_bits(1 << bit));
    bits.filter_map(|feature| Some((feature.names().next()?, feature)))
}

/// The feature of this name.
pub(super) fn parse(name: &str) -> Result<Features, String> {
    let found = all().find(|(known, _)| *known == name.trim());
    found
        .map(|(_, feature)| feature)
        .ok_or_else(|| format!("the features are {}", names()))
}

pub(super) fn help() -> String {
    format!(
        "What to record besides markers, separated by commas: {}",
        names()
    )
}

fn names() -> String {
    all().map(|(name, _)| name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_a_feature_is_accepted() {
        for (name, feature) in all() {
            assert_eq!(parse(name), Ok(feature));
        }
        assert_eq!(parse("memory"), Ok(Features::MEMORY));
        assert!(parse("everything").unwrap_err().contains("stackwalk"));
    }
}
