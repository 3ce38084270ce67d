//! Random sequences of operations, on the store and on the core: every answer must be the same.

use std::fmt::{self, Write as _};
use std::time::Duration;

use lease_machines::{FencingToken, OwnerId};

use super::context::{Context, Outcome, name, told};
use super::model::{Model, Op, Said};
use super::subject::Need;
use super::{Case, block_on, case};
use crate::owner::random as seed_from_the_system;
use crate::{Acquired, Claim, Ending, ErrorKind, LeaseRef, Rejected, Released, Renewed, Revoked, Store};

pub(super) const CASES: &[Case] =
    &[case("random operations are decided as the core decides", Need::Driven, run)];

const SEQUENCES: u32 = 25;
/// How many steps a sequence has.
pub(super) const LENGTH: usize = 120;
const RESOURCES: u64 = 3;

/// One step of a sequence; what it is about is looked up when it is carried out, so that leaving others out leaves
/// it meaningful.
#[derive(Clone, Debug)]
enum Step {
    Pass(Duration),
    Acquire { resource: u64, owner: u64, again: bool, echo: bool, ttl: Duration },
    Renew { resource: u64, owner: u64, token: Pick, ttl: Duration },
    Release { resource: u64, owner: u64, token: Pick },
    Withdraw { resource: u64, owner: u64 },
    Revoke { resource: u64, expect: Option<Pick> },
}

/// Which token a step shows.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pick {
    Current,
    Older,
    Newer,
}

impl Pick {
    /// Mostly the one that is current.
    pub(super) fn any(random: &mut Random) -> Self {
        match random.below(8) {
            0 => Self::Older,
            1 => Self::Newer,
            _ => Self::Current,
        }
    }

    /// The token, of what was issued last and what is held.
    pub(super) fn token(self, last: u64, current: Option<u64>) -> u64 {
        match self {
            Self::Current => current.unwrap_or(last).max(1),
            Self::Older => last.saturating_sub(1).max(1),
            Self::Newer => last.saturating_add(1),
        }
    }
}

fn run(context: &Context<'_>) -> Outcome<()> {
    try_sequences(sequence, |steps| replay(context, steps))
}

/// Replays sequences of steps, each made of a seed. One that fails is shrunk and shown.
pub(super) fn try_sequences<S: Clone + fmt::Debug>(
    sequence: impl Fn(u64) -> Vec<S>,
    replay: impl Fn(&[S]) -> Outcome<()>,
) -> Outcome<()> {
    let mut seed = seed()?;
    for _ in 0..SEQUENCES {
        let steps = sequence(seed);
        if let Err(message) = replay(&steps) {
            let (steps, message) = shrink(steps, message, &replay);
            let mut text = format!("{message}\n    seed {seed} (LEASE_SEED repeats it), shrunk to:");
            for step in &steps {
                let _ = write!(text, "\n      {step:?}");
            }
            return Err(text);
        }
        seed = seed.wrapping_add(1);
    }
    Ok(())
}

/// The seed that the environment names, or another one every time.
pub(super) fn seed() -> Outcome<u64> {
    match std::env::var("LEASE_SEED") {
        Ok(text) => text.parse().map_err(|_| format!("LEASE_SEED is {text:?}, expected a number")),
        Err(_) => seed_from_the_system().map_err(told),
    }
}

/// Leaves out whatever the failure does not need.
fn shrink<S: Clone>(
    mut steps: Vec<S>,
    mut message: String,
    replay: &impl Fn(&[S]) -> Outcome<()>,
) -> (Vec<S>, String) {
    let mut chunk = steps.len() / 2;
    while chunk > 0 {
        let mut at = 0;
        while at < steps.len() {
            let mut fewer = steps.clone();
            fewer.drain(at..(at + chunk).min(steps.len()));
            match replay(&fewer) {
                Err(found) => {
                    steps = fewer;
                    message = found;
                }
                Ok(()) => at += chunk,
            }
        }
        chunk /= 2;
    }
    (steps, message)
}

pub(super) struct Random(pub(super) u64);

impl Random {
    /// SplitMix64 (Steele, Lea and Flood 2014), below `limit`.
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % limit.max(1)
    }
}

fn sequence(seed: u64) -> Vec<Step> {
    let mut random = Random(seed);
    let ttls = [0, 1, 3, 20, 200];
    (0..LENGTH)
        .map(|_| {
            let resource = random.below(RESOURCES);
            let owner = 1 + random.below(4);
            let ttl = ttls.get(usize::try_from(random.below(5)).unwrap_or(0)).copied().unwrap_or(1);
            let ttl = Duration::from_millis(ttl);
            let token = Pick::any(&mut random);
            match random.below(20) {
                0..=4 => Step::Pass(Duration::from_micros(random.below(30_000))),
                5..=10 => Step::Acquire {
                    resource,
                    owner,
                    again: random.below(2) == 0,
                    echo: random.below(6) == 0,
                    ttl,
                },
                11..=14 => Step::Renew { resource, owner, token, ttl },
                15..=17 => Step::Release { resource, owner, token },
                18 => Step::Withdraw { resource, owner },
                _ => Step::Revoke { resource, expect: (random.below(2) == 0).then_some(token) },
            }
        })
        .collect()
}

fn replay(context: &Context<'_>, steps: &[Step]) -> Outcome<()> {
    let fixture = context.subject.fresh().map_err(told)?;
    let store = fixture.store();
    let mut models = vec![Model::default(); usize::try_from(RESOURCES).unwrap_or(3)];
    // A withdrawn owner is never used again: the next hold draws another.
    let mut lives = [0_u64; 8];
    let mut attempts = 0_u64;
    let mut now = Duration::ZERO;
    for (index, step) in steps.iter().enumerate() {
        let (resource, op) = match step {
            Step::Pass(time) => {
                fixture.pass(*time);
                now = now.saturating_add(*time);
                continue;
            }
            Step::Acquire { resource, owner, again, echo, ttl } => {
                if !echo {
                    attempts += 1;
                }
                let owner = life(&lives, *owner);
                (*resource, Op::Acquire { owner, attempt: attempts.max(1), again: *again, ttl: *ttl })
            }
            Step::Renew { resource, owner, token, ttl } => {
                let token = pick(&models, *resource, *token);
                (*resource, Op::Renew { owner: life(&lives, *owner), token, ttl: *ttl })
            }
            Step::Release { resource, owner, token } => {
                let token = pick(&models, *resource, *token);
                (*resource, Op::Release { owner: life(&lives, *owner), token })
            }
            Step::Withdraw { resource, owner } => {
                let withdrawn = life(&lives, *owner);
                if let Some(life) = lives.get_mut(usize::try_from(*owner).unwrap_or(0)) {
                    *life += 1;
                }
                (*resource, Op::Withdraw { owner: withdrawn })
            }
            Step::Revoke { resource, expect } => {
                let expect = expect.map(|token| pick(&models, *resource, token));
                (*resource, Op::Revoke { expect })
            }
        };
        let said = perform(&*store, &format!("resource-{resource}"), &op)?;
        let Some(model) = models.get_mut(usize::try_from(resource).unwrap_or(0)) else { continue };
        let chosen = match said {
            Said::Granted { token, .. } | Said::Burnt { token } => Some(token),
            _ => None,
        };
        let expected = model.ask(&op, now, chosen);
        ensure!(
            said == expected,
            "step {index}, {op:?} at {now:?}: the store said {said:?}, the core {expected:?}"
        );
    }
    Ok(())
}

fn life(lives: &[u64], owner: u64) -> u64 {
    owner + 10 * lives.get(usize::try_from(owner).unwrap_or(0)).copied().unwrap_or(0)
}

fn pick(models: &[Model], resource: u64, pick: Pick) -> u64 {
    let model = models.get(usize::try_from(resource).unwrap_or(0));
    pick.token(model.map_or(1, Model::last), model.and_then(Model::token))
}

/// Asks the store, and takes down what it said.
fn perform(store: &dyn Store, resource: &str, op: &Op) -> Outcome<Said> {
    match ask(store, resource, op) {
        Ok(said) => Ok(said),
        Err(Ok(error)) if error.kind() == ErrorKind::Superseded => Ok(Said::Superseded),
        Err(Ok(error)) => Err(told(error)),
        Err(Err(message)) => Err(message),
    }
}

/// The inner error of an error is a message about the request itself.
pub(super) fn ask(
    store: &dyn Store,
    resource: &str,
    op: &Op,
) -> Result<Said, Result<crate::StoreError, String>> {
    let resource = name(resource).map_err(Err)?;
    let token = |token: u64| FencingToken::new(token).ok_or(Err("a token of 0".to_owned()));
    Ok(match op {
        Op::Acquire { owner, attempt, again, ttl } => {
            let claim = Claim::new(resource, OwnerId::new(*owner), *ttl).with_attempt(*attempt);
            let answer = if *again { store.reacquire(claim) } else { store.acquire(claim) };
            match block_on(answer).map_err(Ok)? {
                Acquired::Granted(grant) => Said::Granted { token: grant.token.value(), ttl: grant.ttl },
                Acquired::Rejected(why) => rejected(&why),
                Acquired::AlreadyDone(end) => {
                    return Err(Err(format!("nothing was asked for once: {end:?}")));
                }
            }
        }
        Op::Renew { owner, token: shown, ttl } => {
            let lease = LeaseRef::new(resource, OwnerId::new(*owner), token(*shown)?, None);
            match block_on(store.renew(lease, *ttl)).map_err(Ok)? {
                Renewed::Renewed(grant) => Said::Renewed { ttl: grant.ttl },
                Renewed::Rejected(why) => rejected(&why),
            }
        }
        Op::Release { owner, token: shown } => {
            let lease = LeaseRef::new(resource, OwnerId::new(*owner), token(*shown)?, None);
            released(block_on(store.release(lease, Ending::default())).map_err(Ok)?)
        }
        Op::Withdraw { owner } => {
            released(block_on(store.withdraw(resource, OwnerId::new(*owner))).map_err(Ok)?)
        }
        Op::Revoke { expect } => {
            let expect = expect.map(token).transpose()?;
            match block_on(store.revoke(resource, expect, None)).map_err(Ok)? {
                Revoked::Burnt(token) => Said::Burnt { token: token.value() },
                Revoked::Rejected(why) => rejected(&why),
            }
        }
    })
}

fn released(answer: Released) -> Said {
    match answer {
        Released::Released => Said::Released,
        Released::Retained(left) => Said::Renewed { ttl: left },
        Released::AlreadyReleased => Said::AlreadyReleased,
        Released::Rejected(why) => rejected(&why),
    }
}

fn rejected(why: &Rejected) -> Said {
    Said::Rejected(why.reason, why.occupant.as_ref().map(|who| (who.owner.value(), who.token.value())))
}
