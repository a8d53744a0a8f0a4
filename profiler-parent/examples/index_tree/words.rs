//! Words and how often they occur.
//!
//! A word is a run of letters, ASCII or not. ASCII letters are converted to lower case. Runs of one
//! byte, and runs that are too long for a word of a language, are ignored.

use std::collections::HashMap;
use std::mem;

/// The possible lengths of a word in bytes.
const WORD_BYTES: std::ops::RangeInclusive<usize> = 2..=40;

/// Number of occurrences of each word.
#[derive(Debug, Default)]
pub(crate) struct WordIndex(HashMap<Box<[u8]>, u64>);

impl WordIndex {
    /// Adds `times` occurrences of a word.
    pub(crate) fn add(&mut self, word: &[u8], times: u64) {
        match self.0.get_mut(word) {
            Some(count) => *count += times,
            None => drop(self.0.insert(word.into(), times)),
        }
    }

    /// Adds another index.
    pub(crate) fn merge(&mut self, mut other: Self) {
        if self.0.len() < other.0.len() {
            mem::swap(self, &mut other);
        }
        other
            .0
            .into_iter()
            .for_each(|(word, times)| self.add(&word, times));
    }

    /// The words with their counts, in no particular order.
    pub(crate) fn into_words(self) -> impl Iterator<Item = (Box<[u8]>, u64)> {
        self.0.into_iter()
    }

    /// The most frequent words, in descending order; words with equal counts in alphabetical order.
    pub(crate) fn commonest(&self, how_many: usize) -> Vec<(String, u64)> {
        let mut words: Vec<_> = self.0.iter().collect();
        words.sort_unstable_by(|(a, more), (b, less)| less.cmp(more).then_with(|| a.cmp(b)));
        let text = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
        words
            .into_iter()
            .take(how_many)
            .map(|(word, times)| (text(word), *times))
            .collect()
    }
}

/// Counts the words of a text that is passed in pieces.
#[derive(Debug)]
pub(crate) struct WordCounter<'a> {
    index: &'a mut WordIndex,
    word: Vec<u8>,
    words: u64,
}

impl<'a> WordCounter<'a> {
    pub(crate) fn new(index: &'a mut WordIndex) -> Self {
        Self {
            index,
            word: Vec::with_capacity(*WORD_BYTES.end() + 1),
            words: 0,
        }
    }

    /// Counts the words of the next piece. A word may continue in the piece after it.
    pub(crate) fn feed(&mut self, piece: &[u8]) {
        for byte in piece {
            if byte.is_ascii_alphabetic() || !byte.is_ascii() {
                if self.word.len() <= *WORD_BYTES.end() {
                    self.word.push(byte.to_ascii_lowercase());
                }
            } else if !self.word.is_empty() {
                self.end_word();
            }
        }
    }

    /// Ends the text. Returns its number of words.
    pub(crate) fn finish(mut self) -> u64 {
        self.end_word();
        self.words
    }

    fn end_word(&mut self) {
        if WORD_BYTES.contains(&self.word.len()) {
            self.index.add(&self.word, 1);
            self.words += 1;
        }
        self.word.clear();
    }
}
