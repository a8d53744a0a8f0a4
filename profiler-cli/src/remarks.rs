//! The remarks of processes about missing data: a share of time without stacks, a filter of system
//! calls, threads without a timer.
//!
//! `profile` reads them from the logs of the processes; `profiler info` and `record` print them.
//! Three or more remarks that differ only in their numbers have one line.

use std::collections::HashMap;

use serde::Serialize;

/// The maximum number of remarks of a kind that have a line each.
const MAX_LINES: usize = 2;
/// The maximum number of kinds of remarks that are printed.
const MAX_KINDS: usize = 12;

/// A remark of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Remark {
    /// The name of the process.
    pub(crate) process: String,
    /// Its number in the profile.
    pub(crate) pid: String,
    pub(crate) text: String,
}

/// The lines for these remarks, with the most frequent kind first.
pub(crate) fn grouped(remarks: &[Remark]) -> Vec<String> {
    let mut kinds: Vec<(String, Vec<&Remark>)> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for remark in remarks {
        let kind = without_numbers(&remark.text);
        let place = *places.entry(kind.clone()).or_insert(kinds.len());
        match kinds.get_mut(place) {
            Some((_, same)) => same.push(remark),
            None => kinds.push((kind, vec![remark])),
        }
    }
    kinds.sort_by_key(|(_, same)| std::cmp::Reverse(same.len()));
    let further = kinds.len().saturating_sub(MAX_KINDS);
    let shown = kinds.iter().take(MAX_KINDS);
    let mut lines: Vec<String> = shown.flat_map(|(_, same)| lines_of_kind(same)).collect();
    if further > 0 {
        lines.push(format!(
            "{further} further kinds of remarks (--json has all)"
        ));
    }
    lines
}

/// The same for remarks that are lines already, each about a process or about the whole profile.
pub(crate) fn grouped_lines(lines: &[String]) -> Vec<String> {
    let of_process = |line: &String| {
        let (head, text) = line.split_once("): ")?;
        let (process, pid) = head.rsplit_once(" (")?;
        Some(Remark {
            process: process.to_owned(),
            pid: pid.to_owned(),
            text: text.to_owned(),
        })
    };
    let others = lines.iter().filter(|line| of_process(line).is_none());
    let remarks: Vec<Remark> = lines.iter().filter_map(of_process).collect();
    others.cloned().chain(grouped(&remarks)).collect()
}

fn lines_of_kind(same: &[&Remark]) -> Vec<String> {
    let line = |remark: &Remark| format!("{} ({}): {}", remark.process, remark.pid, remark.text);
    match same {
        [first, further @ ..] if further.len() >= MAX_LINES => {
            vec![format!("{}, and {} more alike", line(first), further.len())]
        }
        few => few.iter().map(|remark| line(remark)).collect(),
    }
}

/// A text with `#` in place of each number.
fn without_numbers(text: &str) -> String {
    let mut kind = String::new();
    for letter in text.chars() {
        match letter {
            '0'..='9' if kind.ends_with('#') => {}
            '0'..='9' => kind.push('#'),
            other => kind.push(other),
        }
    }
    kind
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remark(pid: u32, text: &str) -> Remark {
        Remark {
            process: "cc".to_owned(),
            pid: pid.to_string(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn remarks_that_differ_in_numbers_only_are_one_line_if_they_are_many() {
        let few = [remark(1, "5 % of 30 ms"), remark(2, "70 % of 9 ms")];
        let lines = ["cc (1): 5 % of 30 ms", "cc (2): 70 % of 9 ms"];
        assert_eq!(grouped(&few), lines);
        let many = [
            remark(9, "a filter"),
            remark(1, "5 % of 30 ms"),
            remark(2, "70 % of 9 ms"),
            remark(3, "7 % of 100 ms"),
        ];
        let lines = ["cc (1): 5 % of 30 ms, and 2 more alike", "cc (9): a filter"];
        assert_eq!(grouped(&many), lines);
    }

    #[test]
    fn lines_about_processes_are_grouped_and_others_stay() {
        let lines = [
            "a (b) (1): it is static",
            "a (2): it is static",
            "3 frames left out",
        ];
        let mut lines: Vec<String> = lines.map(str::to_owned).to_vec();
        assert_eq!(
            grouped_lines(&lines),
            [
                "3 frames left out",
                "a (b) (1): it is static",
                "a (2): it is static"
            ]
        );
        lines.push("c (3): it is static".to_owned());
        let all = grouped_lines(&lines);
        assert_eq!(all[1], "a (b) (1): it is static, and 2 more alike");
    }

    #[test]
    fn the_number_of_lines_is_limited() {
        let words = [
            "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n",
        ];
        let all: Vec<Remark> = words.iter().map(|word| remark(1, word)).collect();
        let lines = grouped(&all);
        assert_eq!(lines.len(), MAX_KINDS + 1);
        assert!(lines[MAX_KINDS].starts_with("2 further kinds"), "{lines:?}");
    }
}
