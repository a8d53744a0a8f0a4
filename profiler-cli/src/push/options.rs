//! The options about pushing that `profiler push` and `profiler record` have.
//!
//! Secrets come from files or environment variables, because the arguments of a command are
//! readable for all users of a machine.

use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use profiler_parent::ByteLimit;
use profiler_push::{PushDestination, PushOptions, PushReport, Pusher, Secret};
use profiler_sys::spawn_quiet;

use super::outcome::tell_report;
use crate::console::tell;
use crate::units;

/// The identity of the data, and the credentials of requests.
#[derive(Debug, Args)]
pub(crate) struct IdentityArgs {
    /// The name of the service that the data belongs to [default: the name of the program]
    #[arg(long, value_name = "NAME")]
    push_service: Option<String>,
    /// The version of the program, by which releases can be compared
    #[arg(long, value_name = "VERSION")]
    push_version: Option<String>,
    /// The name of the host [default: the name of the machine that recorded]
    #[arg(long, value_name = "NAME")]
    push_host: Option<String>,
    /// Sends the token in this file with each request
    #[arg(long, value_name = "FILE", conflicts_with_all = ["push_token_env", "push_user"])]
    push_token_file: Option<PathBuf>,
    /// Sends the token in this environment variable with each request
    #[arg(long, value_name = "VARIABLE", conflicts_with = "push_user")]
    push_token_env: Option<String>,
    /// Sends this user with each request, and the password of --push-password-file or
    /// --push-password-env; without these options, the password is empty
    #[arg(long, value_name = "NAME")]
    push_user: Option<String>,
    /// The file with the password
    #[arg(
        long,
        value_name = "FILE",
        requires = "push_user",
        conflicts_with = "push_password_env"
    )]
    push_password_file: Option<PathBuf>,
    /// The environment variable with the password
    #[arg(long, value_name = "VARIABLE", requires = "push_user")]
    push_password_env: Option<String>,
}

/// The options of `profiler record` about pushing.
#[derive(Debug, Args)]
pub(crate) struct RecordPushArgs {
    /// Sends what is recorded to this engine during the recording, as `profiler push` does; may be
    /// repeated
    #[arg(long, value_name = "ADDRESS")]
    push: Vec<String>,
    #[command(flatten)]
    identity: IdentityArgs,
    /// Seconds between two batches
    #[arg(long, value_name = "S", default_value = "10", value_parser = units::seconds)]
    push_period: Duration,
    /// Keeps batches that are not sent in this directory; the next recording with it, or
    /// `profiler push --spool`, sends them
    #[arg(long, value_name = "DIR", requires = "push")]
    push_spool: Option<PathBuf>,
    /// The limit on the size of waiting batches, such as 64M; beyond it, the oldest batch is lost
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = units::size)]
    push_spool_limit: u64,
    /// The longest time for sending waiting batches after the program has ended, in seconds
    #[arg(long, value_name = "S", default_value = "30", value_parser = units::seconds)]
    push_timeout: Duration,
}

impl IdentityArgs {
    /// Whether there is any of these options.
    fn is_given(&self) -> bool {
        let names = [
            &self.push_service,
            &self.push_version,
            &self.push_host,
            &self.push_token_env,
            &self.push_user,
            &self.push_password_env,
        ];
        let files = [&self.push_token_file, &self.push_password_file];
        names.iter().any(|name| name.is_some()) || files.iter().any(|file| file.is_some())
    }

    /// Whether there is an option about the service, its version or the host.
    pub(super) fn has_labels(&self) -> bool {
        let labels = [&self.push_service, &self.push_version, &self.push_host];
        labels.iter().any(|label| label.is_some())
    }

    /// The options for these destinations.
    pub(super) fn options(&self, addresses: &[String]) -> Result<Option<PushOptions>> {
        let mut options: Option<PushOptions> = None;
        for address in addresses {
            let destination = self.authorised(PushDestination::parse(address)?)?;
            options = Some(match options {
                None => PushOptions::to(destination),
                Some(options) => options.and_to(destination),
            });
        }
        Ok(options.map(|mut options| {
            if let Some(service) = &self.push_service {
                options = options.service(service);
            }
            if let Some(version) = &self.push_version {
                options = options.version(version);
            }
            if let Some(host) = &self.push_host {
                options = options.host(host);
            }
            options
        }))
    }

    fn authorised(&self, destination: PushDestination) -> Result<PushDestination> {
        if let Some(user) = &self.push_user {
            let password = secret(&self.push_password_file, &self.push_password_env)?;
            return Ok(destination.user(user, password.unwrap_or_else(|| Secret::new(""))));
        }
        Ok(match secret(&self.push_token_file, &self.push_token_env)? {
            Some(token) => destination.token(token),
            None => destination,
        })
    }
}

/// There is no message if the sending takes less time.
const BRIEF: Duration = Duration::from_secs(1);

fn secret(file: &Option<PathBuf>, variable: &Option<String>) -> Result<Option<Secret>> {
    let from_file = file.as_ref().map(Secret::from_file);
    let from_environment = || variable.as_deref().map(Secret::from_environment);
    Ok(from_file.or_else(from_environment).transpose()?)
}

impl RecordPushArgs {
    /// How to push what the program of this name records, if anything is to be pushed.
    pub(crate) fn options(&self, program: &str) -> Result<Option<PushOptions>> {
        if self.push.is_empty() && self.identity.is_given() {
            bail!("the options --push-… need --push ADDRESS");
        }
        let options = self.identity.options(&self.push)?;
        let service = self.identity.push_service.as_deref().unwrap_or(program);
        Ok(options.map(|options| {
            let options = options
                .service(service)
                .period(self.push_period)
                .spool_limit(ByteLimit::new(self.push_spool_limit));
            match &self.push_spool {
                Some(directory) => options.spool(directory),
                None => options,
            }
        }))
    }

    /// Sends what waits at the end of a recording. If that takes long, says so on standard error.
    pub(crate) fn finish(&self, pusher: Pusher) -> PushReport {
        let (sends, has_sent) = channel::<()>();
        let time = self.push_timeout;
        // If the thread cannot start, there is no message.
        let _ = spawn_quiet("profiler-tell", move || {
            if has_sent.recv_timeout(BRIEF) == Err(RecvTimeoutError::Timeout) {
                tell(&format!(
                    "profiler: sending the last batches for up to {time:?}; Ctrl-C skips this, and \
                     the profile is still written"
                ));
            }
        });
        let report = pusher.finish(self.push_timeout);
        drop(sends);
        report
    }

    /// Says on standard error what a recording has pushed, and what becomes of the rest.
    pub(crate) fn tell_report(&self, report: &PushReport) {
        tell_report(report);
        if report.destinations.iter().all(|to| to.waiting_batches == 0) {
            return;
        }
        tell(&match &self.push_spool {
            Some(directory) => format!(
                "profiler: what was not sent is in {0}; the next recording with --push-spool {0}, \
                 or `profiler push --spool {0} --to ADDRESS`, sends it",
                directory.display()
            ),
            None => {
                "profiler: what was not sent is only in the profile; --push-timeout allows more \
                     time, and --push-spool keeps the batches"
                    .to_owned()
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        push: RecordPushArgs,
    }

    #[test]
    fn the_service_of_a_recording_is_its_program_unless_it_is_given() {
        let service = |arguments: &[&str]| {
            let first = ["record", "--push", "otlp+http://host"];
            let line = Line::parse_from([&first[..], arguments].concat());
            let options = line.push.options("shop").unwrap().unwrap();
            let shown = format!("{options:?}");
            let (_, service) = shown.split_once("service: Some(").unwrap();
            service.split_once(')').unwrap().0.to_owned()
        };
        assert_eq!(service(&[]), "\"shop\"");
        assert_eq!(service(&["--push-service", "store"]), "\"store\"");
    }
}
