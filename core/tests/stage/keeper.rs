//! The keeper's part of the stage.
//!
//! ```text
//! keeper ttl D renew D warn D [wait D|forever] [lead D] [hold D] [retake]     a new one, at 0
//! at T                                       only time passes
//! at T granted #A token N for D              and renewed; the answer to attempt A, sent when it was
//! at T rejected #A REASON [D]                as in `occupied 20`: the other's lease goes on for 20 s
//! at T not-done|no-answer|refused|already-done|released #A
//! at T new-epoch|fenced|woken|stop|finished
//! ```
//!
//! What it then says stands behind the arrow, up to the instant at which it wants to be asked again. Its own times are
//! shown to the millisecond.

use core::time::Duration;

use lease_machines::{Cadence, Command, Event, KeeperOptions, Rejection, Wait};

use super::{Played, shown, time, token};
use crate::rig::Rig;

pub(super) fn new(words: &[&str]) -> Result<(Rig, String), String> {
    let ["ttl", ttl, "renew", renew, "warn", warn, rest @ ..] = words else {
        return Err("expected ttl D renew D warn D".into());
    };
    let cadence = Cadence::new(time(ttl)?, time(renew)?, time(warn)?).ok_or("an unsound cadence")?;
    let mut options = KeeperOptions::new(cadence);
    let mut rest = rest;
    loop {
        (options, rest) = match rest {
            [] => break,
            ["wait", "forever", rest @ ..] => (options.with_wait(Wait::Forever), rest),
            ["wait", until, rest @ ..] => (options.with_wait(Wait::Until(time(until)?)), rest),
            ["lead", lead, rest @ ..] => (options.with_stop_lead(time(lead)?), rest),
            ["hold", hold, rest @ ..] => (options.with_max_hold(Some(time(hold)?)), rest),
            ["retake", rest @ ..] => (options.with_retake(true), rest),
            _ => return Err(format!("no such option: {rest:?}")),
        };
    }
    let (rig, commands) = Rig::start(options);
    let said = said(&rig, &commands);
    Ok((rig, said))
}

pub(super) fn at(rig: &mut Rig, words: &[&str]) -> Played {
    let [now, event @ ..] = words else { return Err("expected at T".into()) };
    let now = time(now)?;
    let event = match event {
        [] => Event::Tick,
        ["granted", attempt, "token", n, "for", ttl] => {
            let attempt = number(attempt)?;
            Event::Granted { attempt, token: token(n)?, ttl: time(ttl)?, sent: rig.sent(attempt) }
        }
        ["renewed", attempt, "token", n, "for", ttl] => {
            let attempt = number(attempt)?;
            Event::Renewed { attempt, token: token(n)?, ttl: time(ttl)?, sent: rig.sent(attempt) }
        }
        ["rejected", attempt, reason] => Event::Rejected {
            attempt: number(attempt)?,
            reason: rejection(reason)?,
            remaining: Duration::ZERO,
        },
        ["rejected", attempt, reason, remaining] => Event::Rejected {
            attempt: number(attempt)?,
            reason: rejection(reason)?,
            remaining: time(remaining)?,
        },
        ["not-done", attempt] => Event::NotDone { attempt: number(attempt)? },
        ["no-answer", attempt] => Event::NoAnswer { attempt: number(attempt)? },
        ["refused", attempt] => Event::Refused { attempt: number(attempt)? },
        ["already-done", attempt] => Event::AlreadyDone { attempt: number(attempt)? },
        ["released", attempt] => Event::Released { attempt: number(attempt)? },
        ["new-epoch"] => Event::NewEpoch,
        ["fenced"] => Event::Fenced,
        ["woken"] => Event::Woken,
        ["stop"] => Event::StopRequested,
        ["finished"] => Event::WorkFinished,
        _ => return Err("no such event".into()),
    };
    let commands = rig.tell(now, event);
    Ok(said(rig, &commands))
}

fn said(rig: &Rig, commands: &[Command]) -> String {
    let outcome = rig.outcome().map(|outcome| format!("over: {outcome:?}"));
    let all: Vec<String> = commands.iter().map(describe).chain(outcome).collect();
    if all.is_empty() { "nothing".into() } else { all.join("; ") }
}

fn describe(command: &Command) -> String {
    match command {
        Command::Acquire { attempt, ttl, limit } => {
            format!("acquire #{attempt} for {}, by {}", shown(*ttl), rounded(*limit))
        }
        Command::Reacquire { attempt, ttl, limit } => {
            format!("reacquire #{attempt} for {}, by {}", shown(*ttl), rounded(*limit))
        }
        Command::Renew { attempt, token, ttl, limit } => {
            format!("renew #{attempt} of {token} for {}, by {}", shown(*ttl), rounded(*limit))
        }
        Command::Release { attempt, token, limit } => {
            format!("release #{attempt} of {token}, by {}", rounded(*limit))
        }
        Command::Withdraw { attempt, limit } => format!("withdraw #{attempt}, by {}", rounded(*limit)),
        Command::ReleaseStray { token } => format!("give back {token}"),
        Command::StartWork { token } => format!("start the work under {token}"),
        Command::Warn => "warn".into(),
        Command::StopWork { reason } => format!("stop the work: {reason:?}"),
        Command::AwaitVacancy { until } => format!("await vacancy until {}", rounded(*until)),
        Command::WaitUntil(Duration::MAX) => "wait for the work to end".into(),
        Command::WaitUntil(until) => format!("wait until {}", rounded(*until)),
    }
}

fn rounded(time: Duration) -> String {
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    shown(Duration::from_millis(millis))
}

fn number(word: &str) -> Result<u64, String> {
    word.strip_prefix('#').and_then(|n| n.parse().ok()).ok_or_else(|| format!("no attempt: {word:?}"))
}

fn rejection(word: &str) -> Result<Rejection, String> {
    Ok(match word {
        "occupied" => Rejection::Occupied,
        "vacant" => Rejection::Vacant,
        "wrong-owner" => Rejection::WrongOwner,
        "stale-token" => Rejection::StaleToken,
        "expired" => Rejection::Expired,
        "clock-regressed" => Rejection::ClockRegressed,
        "invalid-ttl" => Rejection::InvalidTtl,
        "deadline-overflow" => Rejection::DeadlineOverflow,
        "tokens-exhausted" => Rejection::TokensExhausted,
        _ => return Err(format!("no reason: {word:?}")),
    })
}
