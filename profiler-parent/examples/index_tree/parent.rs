//! The parent: starts the workers, indexes the tree, captures the profile, and ends the workers.

use std::process::ExitCode;

use anyhow::{Context, Result};
use profiler_parent::ByteLimit;
use profiler_parent::core::marker::MarkerOptions;
use profiler_parent::{Session, SessionError, scope, text_marker};

use crate::crew::{Crew, Harvest};
use crate::expect::expectation;
use crate::markers::WORDS;
use crate::options::{Options, Refusal};
use crate::report;
use crate::words::WordIndex;

/// The name of this process in the profile.
pub(crate) const NAME: &str = "index_tree";

/// Indexes the tree and saves the profile of this work.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    options.check()?;
    let session = start(options)?;
    let mut crew = Crew::start(&session, options.workers, &options.dir)?;
    let mut harvest = crew.index(&options.dir)?;
    report::print_words(&merge(&mut harvest), &harvest);
    let captured = session.capture().save(&options.out)?;
    report::print_profile(&captured);
    let complaints = report::complaints(&harvest, crew.dismiss());
    complaints
        .iter()
        .for_each(|complaint| eprintln!("index_tree: {complaint}"));
    if let Some(file) = &options.expect {
        report::save(file, &expectation(&harvest, &captured))?;
    }
    Ok(if complaints.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn start(options: &Options) -> Result<Session> {
    let mut builder = Session::builder()
        .name(NAME)
        .memory_limit(ByteLimit::new(options.memory_limit));
    if let Some(pools) = &options.pools {
        builder = builder.pool_directory(pools);
    }
    match builder.start() {
        Err(error @ (SessionError::LimitTooSmall { .. } | SessionError::Pools(_))) => {
            Err(Refusal::new(error.to_string()).into())
        }
        started => started.context("cannot profile"),
    }
}

/// Merges the indexes of all workers that sent them.
fn merge(harvest: &mut Harvest) -> WordIndex {
    let mut all = WordIndex::default();
    for outcome in &mut harvest.outcomes {
        let Some(index) = outcome.index.take() else {
            continue;
        };
        let _scope = scope!("merge", WORDS.sub(2), &outcome.name);
        all.merge(index);
    }
    let text = format!("{} files", harvest.sum().files);
    text_marker!("indexed", &WORDS, MarkerOptions::default(), &text);
    all
}
