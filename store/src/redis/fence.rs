//! The fence in a Redis database: commands that run only under a token that is not below the mark.

use std::time::{Duration, SystemTime};

use lease_machines::{FencingToken, OwnerId};
use redis::aio::ConnectionLike;
use redis::{Cmd, Pipeline, Value};

use super::answer::text;
use super::script::{self, FENCE, Keys, bucket_of};
use crate::fence::{out_of_range, poisoned, rewound, shown, stale};
use crate::{GuardError, GuardErrorKind, GuardKind, GuardMode, LeaseRef, Mark, MarkKey, RedisOptions};

/// Runs commands on the user's own connection, in one script with the look at the mark: no other command comes in between.
///
/// What is written is protected where *every* writer comes through here. A fence trusts its callers; it stops the one who
/// overslept, not one who makes tokens up.
///
/// As in `MULTI`, a command that fails takes none of those before it back: have what belongs together checked before. The mark
/// lies in the database that the connection has selected, and lives as long as it: keep `maxmemory-policy noeviction`.
/// Nodes of a cluster cannot be fenced so, since the mark lies on one of them.
#[derive(Clone, Debug)]
pub struct RedisFence {
    keys: Keys,
}

/// What the commands behind a guard answered.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Fenced {
    /// Which guard ran.
    pub kind: GuardKind,
    /// One value a command.
    pub replies: Vec<Value>,
}

impl Default for RedisFence {
    fn default() -> Self {
        Self::new(RedisOptions::NAMESPACE)
    }
}

impl RedisFence {
    /// The marks of a namespace: beside the leases that [`RedisOptions::namespace`] keeps there, where they are in the same
    /// database.
    #[must_use]
    pub fn new(namespace: &str) -> Self {
        Self { keys: Keys::new(namespace) }
    }

    /// Runs commands under a lease, or none of them. The mark rises to the lease's token, and is written in any case.
    ///
    /// # Errors
    ///
    /// A refusal, see [`GuardErrorKind`]; nothing was run then. [`Database`](GuardErrorKind::Database) where the server could
    /// not be asked, or a command failed: those before it were run.
    pub async fn run(
        &self,
        connection: &mut impl ConnectionLike,
        key: &MarkKey,
        lease: &LeaseRef,
        mode: GuardMode,
        commands: &Pipeline,
    ) -> Result<Fenced, GuardError> {
        let mut cmd = self.guard(key, lease, mode)?;
        add(&mut cmd, commands);
        fenced(&send(connection, &cmd).await?, key, lease)
    }

    /// Runs commands without a lease, where nobody has ever shown a token.
    ///
    /// # Errors
    ///
    /// [`Unfenced`](GuardErrorKind::Unfenced) where there is a mark, [`Database`](GuardErrorKind::Database) as above.
    pub async fn run_unfenced(
        &self,
        connection: &mut impl ConnectionLike,
        key: &MarkKey,
        commands: &Pipeline,
    ) -> Result<Vec<Value>, GuardError> {
        let mut cmd = self.ask("unfenced", key);
        add(&mut cmd, commands);
        let answer = send(connection, &cmd).await?;
        match words(&answer).0.as_str() {
            "passed" => Ok(replies(&answer)),
            "unfenced" => Err(GuardError::new(
                GuardErrorKind::Unfenced,
                format!(
                    "{key} is fenced (token {} was seen): a write has to show its lease",
                    words(&answer).1
                ),
            )),
            _ => Err(nonsense(&answer)),
        }
    }

    /// Raises the mark alone: what a new holder does before it reads or writes.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub async fn advance(
        &self,
        connection: &mut impl ConnectionLike,
        key: &MarkKey,
        lease: &LeaseRef,
    ) -> Result<(), GuardError> {
        let cmd = self.guard(key, lease, GuardMode::Auto)?;
        fenced(&send(connection, &cmd).await?, key, lease).map(drop)
    }

    /// The mark, if there is one.
    ///
    /// # Errors
    ///
    /// [`Database`](GuardErrorKind::Database).
    pub async fn look(
        &self,
        connection: &mut impl ConnectionLike,
        key: &MarkKey,
    ) -> Result<Option<Mark>, GuardError> {
        mark(&send(connection, &self.looking(key)).await?, key)
    }

    pub(super) fn looking(&self, key: &MarkKey) -> Cmd {
        self.ask("look", key)
    }

    pub(super) fn guard(&self, key: &MarkKey, lease: &LeaseRef, mode: GuardMode) -> Result<Cmd, GuardError> {
        let shown = shown(key, lease)?;
        let mut cmd = self.ask("guard", key);
        cmd.arg(format!("{:x}", lease.owner.value()))
            .arg(shown.to_string())
            .arg(lease.epoch.map(|epoch| epoch.to_string()).unwrap_or_default())
            .arg(lease.resource.as_str())
            .arg(match mode {
                GuardMode::Auto => "auto",
                GuardMode::Plain => "plain",
                GuardMode::Strict => "strict",
            });
        Ok(cmd)
    }

    pub(super) fn resetting(&self, key: &MarkKey, to: Option<FencingToken>, reason: &str) -> Cmd {
        let mut cmd = self.ask("reset", key);
        cmd.arg(to.map(|token| token.value().to_string()).unwrap_or_default()).arg(reason);
        cmd
    }

    fn ask(&self, what: &str, key: &MarkKey) -> Cmd {
        let bucket = self.keys.bucket(bucket_of(&key.resource));
        let mut cmd = script::call(&FENCE, &[self.keys.marks(), bucket]);
        cmd.arg(what).arg(format!("{}\0{}\0{}", key.resource, key.slot, key.store));
        cmd
    }
}

/// Each command's words, behind their number.
fn add(cmd: &mut Cmd, commands: &Pipeline) {
    for command in commands.cmd_iter() {
        let words: Vec<&[u8]> = command
            .args_iter()
            .map(|arg| match arg {
                redis::Arg::Simple(bytes) => bytes,
                redis::Arg::Cursor => b"0",
            })
            .collect();
        cmd.arg(words.len());
        for word in words {
            cmd.arg(word);
        }
    }
}

async fn send(connection: &mut impl ConnectionLike, cmd: &Cmd) -> Result<Value, GuardError> {
    let failed = |error: redis::RedisError| {
        GuardError::new(GuardErrorKind::Database, format!("the server did not carry it out: {error}"))
            .with_source(error)
    };
    match connection.req_packed_command(cmd).await.and_then(Value::extract_error) {
        Err(error) if error.kind() == redis::ErrorKind::NoScriptError => {
            let whole = script::whole(cmd);
            connection.req_packed_command(&whole).await.and_then(Value::extract_error).map_err(failed)
        }
        answer => answer.map_err(failed),
    }
}

/// What a guard's answer means.
pub(super) fn fenced(answer: &Value, key: &MarkKey, lease: &LeaseRef) -> Result<Fenced, GuardError> {
    let (what, more) = words(answer);
    let highest = || more.parse().ok().and_then(FencingToken::new).ok_or_else(|| nonsense(answer));
    let lost = |how: &str| {
        let message = format!("the lease on {key} under token {} {how}", lease.token);
        GuardError::new(GuardErrorKind::Lost, message)
    };
    Err(match what.as_str() {
        "passed" => {
            let kind = if more == "strict" { GuardKind::Strict } else { GuardKind::Plain };
            return Ok(Fenced { kind, replies: replies(answer) });
        }
        "stale" => stale(key, lease.token, highest()?),
        "poisoned" => poisoned(key, lease.token, highest()?),
        "out of range" => out_of_range(lease.token),
        "lost" if more == "epoch" => lost("is of another epoch than the store in this database"),
        "lost" => lost(&more),
        "not strict" => {
            GuardError::new(GuardErrorKind::NotStrict, format!("the strict guard cannot run: {more}"))
        }
        "rewound" => {
            let first = u64::from_str_radix(&more, 16).map_err(|_| nonsense(answer))?;
            rewound(key, lease, OwnerId::new(first))
        }
        _ => nonsense(answer),
    })
}

pub(super) fn mark(answer: &Value, key: &MarkKey) -> Result<Option<Mark>, GuardError> {
    let Value::Array(parts) = answer else { return Err(nonsense(answer)) };
    let part = |index: usize| parts.get(index).and_then(text).unwrap_or_default();
    if part(0) == "none" {
        return Ok(None);
    }
    let token = part(1).parse().ok().and_then(FencingToken::new);
    let (owner, at) = (u64::from_str_radix(&part(2), 16).ok(), part(3).parse().ok());
    let at = at.and_then(|at| SystemTime::UNIX_EPOCH.checked_add(Duration::from_micros(at)));
    match (token, owner, at) {
        (Some(token), Some(owner), Some(at)) => {
            Ok(Some(Mark { key: key.clone(), token, owner: OwnerId::new(owner), at }))
        }
        _ => Err(nonsense(answer)),
    }
}

/// The first two words of an answer.
fn words(answer: &Value) -> (String, String) {
    let Value::Array(parts) = answer else { return Default::default() };
    let part = |index: usize| parts.get(index).and_then(text).unwrap_or_default();
    (part(0), part(1))
}

fn replies(answer: &Value) -> Vec<Value> {
    match answer {
        Value::Array(parts) => match parts.get(2) {
            Some(Value::Array(replies)) => replies.clone(),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

fn nonsense(answer: &Value) -> GuardError {
    GuardError::new(
        GuardErrorKind::Database,
        format!("the server answered {answer:.200?}, which the fence's script does not"),
    )
}
