//! What follows from the answer to a request, and how long to wait before the next attempt.
//!
//! Used by the sender. Pure. The delay doubles with each failure in a row, up to a minute, and is
//! shortened by a random part of up to half, so that the pushers of many machines do not send at
//! the same time after an outage ("equal jitter" in *Exponential Backoff And Jitter*, AWS
//! Architecture Blog, 2015).

use std::time::Duration;

/// The delay after the first failure.
const FIRST_DELAY: Duration = Duration::from_secs(1);
/// The longest delay that the pusher chooses.
const LONGEST_DELAY: Duration = Duration::from_secs(60);
/// The longest delay that an endpoint can ask for.
const LONGEST_ASKED: Duration = Duration::from_secs(300);
/// A body is given up after this many answers that say that the endpoint itself has failed.
const MAX_SERVER_ERRORS: u32 = 5;

/// ClickHouse's codes of errors that end by themselves or by the work of an administrator, from
/// `ErrorCodes.cpp`.
const CLICKHOUSE_OVERLOADS: [u32; 12] = [
    159, // TIMEOUT_EXCEEDED
    202, // TOO_MANY_SIMULTANEOUS_QUERIES
    203, // NO_FREE_CONNECTION
    209, // SOCKET_TIMEOUT
    210, // NETWORK_ERROR
    241, // MEMORY_LIMIT_EXCEEDED
    242, // TABLE_IS_READ_ONLY
    243, // NOT_ENOUGH_SPACE
    252, // TOO_MANY_PARTS
    279, // ALL_CONNECTION_TRIES_FAILED
    319, // UNKNOWN_STATUS_OF_INSERT
    999, // KEEPER_EXCEPTION
];

/// What an endpoint has answered, or why there is no answer or no request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A status line, the seconds in `Retry-After`, and the beginning of the text.
    Status {
        status: u16,
        retry_after: Option<Duration>,
        text: String,
    },
    /// No connection, no answer in time, or none that is HTTP.
    Missing(String),
    /// The request cannot be made, for example because its address is too long.
    NoRequest(String),
}

impl Answer {
    /// The status, if there is an answer.
    pub(crate) const fn status(&self) -> Option<u16> {
        match self {
            Self::Status { status, .. } => Some(*status),
            Self::Missing(_) | Self::NoRequest(_) => None,
        }
    }
}

/// What to do with a body after an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NextStep {
    /// The endpoint has it.
    Accepted,
    /// The endpoint will not take it, now or later.
    Rejected(String),
    /// The endpoint refuses the credentials.
    Denied(String),
    /// Another attempt after this time.
    TryAgain { after: Duration, why: String },
}

/// The attempts to send one body after the other to one endpoint.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attempts {
    /// Failures since the last accepted or rejected body.
    failures: u32,
    /// Those of them that were answers with a status of 500.
    server_errors: u32,
}

impl Attempts {
    /// Decides what follows from an answer. `random` is from 0 to 1.
    pub(crate) fn after(&mut self, answer: Answer, random: f64) -> NextStep {
        match answer {
            Answer::Status { status, .. } if (200..300).contains(&status) => {
                *self = Self::default();
                NextStep::Accepted
            }
            Answer::Status {
                status,
                retry_after,
                text,
            } => {
                let why = match text.as_str() {
                    "" => format!("status {status}"),
                    text => format!("status {status}: {text}"),
                };
                if is_denied(status) {
                    return NextStep::Denied(why);
                }
                let is_unexplained = status == 500 && !is_overload(&text);
                self.server_errors += u32::from(is_unexplained);
                if is_temporary(status) && self.server_errors < MAX_SERVER_ERRORS {
                    self.try_again(retry_after, why, random)
                } else {
                    *self = Self::default();
                    NextStep::Rejected(why)
                }
            }
            Answer::Missing(why) => self.try_again(None, why, random),
            Answer::NoRequest(why) => {
                *self = Self::default();
                NextStep::Rejected(why)
            }
        }
    }

    fn try_again(&mut self, asked: Option<Duration>, why: String, random: f64) -> NextStep {
        let asked = asked.unwrap_or_default().min(LONGEST_ASKED);
        NextStep::TryAgain {
            after: self.pause_after_failure(random).max(asked),
            why,
        }
    }

    /// The delay after another failure. `random` is from 0 to 1.
    pub(crate) fn pause_after_failure(&mut self, random: f64) -> Duration {
        let doublings = self.failures.min(16);
        self.failures = self.failures.saturating_add(1);
        let delay = FIRST_DELAY
            .saturating_mul(1 << doublings)
            .min(LONGEST_DELAY);
        delay.mul_f64(1.0 - random.clamp(0.0, 1.0) / 2.0)
    }
}

/// Whether a status says that the credentials are wrong.
const fn is_denied(status: u16) -> bool {
    matches!(status, 401 | 403 | 407)
}

/// Whether a status says that the address is wrong.
pub(super) const fn is_wrong_place(status: u16) -> bool {
    matches!(status, 300..=399 | 404 | 405 | 421 | 501)
}

/// Whether the same request may be accepted later.
const fn is_temporary(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500 | 502 | 503 | 504)
}

/// Whether a server of ClickHouse says that it, or another server of its cluster, cannot take rows
/// at present. It has the status 500 for this, and for errors that do not end.
fn is_overload(text: &str) -> bool {
    let code = text.strip_prefix("Code: ").unwrap_or_default();
    let digits = code.split(|letter: char| !letter.is_ascii_digit()).next();
    let code = digits.and_then(|digits| digits.parse().ok());
    code.is_some_and(|code: u32| CLICKHOUSE_OVERLOADS.contains(&code))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn status(status: u16) -> Answer {
        Answer::Status {
            status,
            retry_after: None,
            text: String::new(),
        }
    }

    fn delay(step: &NextStep) -> Option<Duration> {
        match step {
            NextStep::TryAgain { after, .. } => Some(*after),
            _ => None,
        }
    }

    #[test]
    fn delays_double_up_to_a_minute_and_begin_anew_after_a_success() {
        let mut attempts = Attempts::default();
        let mut seconds = || {
            let step = attempts.after(Answer::Missing("refused".into()), 0.0);
            delay(&step).unwrap().as_secs()
        };
        let first: Vec<u64> = (0..8).map(|_| seconds()).collect();
        assert_eq!(first, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(attempts.after(status(200), 0.0), NextStep::Accepted);
        let step = attempts.after(status(503), 0.0);
        assert_eq!(delay(&step), Some(FIRST_DELAY));
    }

    #[test]
    fn an_endpoint_may_ask_for_a_longer_delay_within_bounds() {
        let asked = |seconds| Answer::Status {
            status: 429,
            retry_after: Some(Duration::from_secs(seconds)),
            text: String::new(),
        };
        let after = |seconds| delay(&Attempts::default().after(asked(seconds), 0.5));
        assert_eq!(after(30), Some(Duration::from_secs(30)));
        assert_eq!(after(100_000), Some(LONGEST_ASKED));
        assert_eq!(after(0), Some(Duration::from_millis(750)));
    }

    #[test]
    fn a_body_that_an_endpoint_refuses_is_given_up_at_once_and_one_that_it_cannot_take_after_a_while()
     {
        for refused in [301, 400, 404, 413, 501] {
            let step = Attempts::default().after(status(refused), 0.0);
            assert!(matches!(step, NextStep::Rejected(_)), "{refused}: {step:?}");
        }
        for denied in [401, 403, 407] {
            let step = Attempts::default().after(status(denied), 0.0);
            assert!(matches!(step, NextStep::Denied(_)), "{denied}: {step:?}");
        }
        let mut attempts = Attempts::default();
        let tries = (0..20).take_while(|_| delay(&attempts.after(status(500), 0.0)).is_some());
        assert_eq!(tries.count(), 4);
        let step = attempts.after(Answer::NoRequest("too long".into()), 0.0);
        assert!(matches!(step, NextStep::Rejected(_)), "{step:?}");
        let silent = |_: &u32| {
            let step = attempts.after(Answer::Missing("silence".into()), 0.0);
            delay(&step).is_some()
        };
        assert_eq!(
            (0..100).take_while(silent).count(),
            100,
            "an outage has no end"
        );
    }

    #[test]
    fn rows_wait_for_a_store_that_has_too_much_to_do_without_an_end() {
        let says = |text: &str| {
            let mut attempts = Attempts::default();
            let answer = Answer::Status {
                status: 500,
                retry_after: None,
                text: text.to_owned(),
            };
            (0..20)
                .take_while(|_| delay(&attempts.after(answer.clone(), 0.0)).is_some())
                .count()
        };
        assert_eq!(says("Code: 252. DB::Exception: Too many parts (300)"), 20);
        assert_eq!(
            says("Code: 252, e.displayText() = DB::Exception: Too many parts"),
            20
        );
        for other in [
            "Code: 60, e.displayText()",
            "Code: 2520.",
            "Code: ",
            "252",
            "",
        ] {
            assert_eq!(says(other), 4, "{other}");
        }
    }

    proptest! {
        #[test]
        fn every_delay_is_within_its_bounds(
            failures in 0_u32..50, random: f64, asked in prop::option::of(0_u64..1 << 40)
        ) {
            let mut attempts = Attempts { failures, server_errors: 0 };
            let step = attempts.after(Answer::Status {
                status: 503,
                retry_after: asked.map(Duration::from_secs),
                text: String::new(),
            }, random);
            let delay = delay(&step).unwrap();
            prop_assert!(delay >= FIRST_DELAY / 2 && delay <= LONGEST_ASKED);
        }
    }
}
