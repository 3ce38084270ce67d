//! Random sequences of operations on a pool, of the store and of the core: every answer must be the same, and so must what
//! the pool looks like after it.

use std::time::Duration;

use lease_machines::{FencingToken, Gone, OwnerId, SlotRange};

use super::super::context::{Context, Outcome, told};
use super::super::random::{LENGTH, Pick, Random, try_sequences};
use super::super::subject::Need;
use super::super::{Case, block_on, case};
use super::POOL;
use super::model::{Look, Op, PoolModel, Said, Wish};
use crate::{
    Claimed, ErrorKind, PoolClaim, Rejected, Released, Resized, ResourceName, Revoked, SlotLease, SlotRef,
    SlotRenewed, Store, StoreError,
};

pub(super) const CASES: &[Case] =
    &[case("random operations on a pool are decided as the core decides", Need::SlotsDriven, run)];

const SIZES: [u32; 3] = [3, 4, 6];
const IDENTITIES: [Option<&str>; 4] = [None, Some("a"), Some("b"), Some("c")];

/// One step of a sequence; what it is about is looked up when it is carried out, so that leaving others out leaves it
/// meaningful.
#[derive(Clone, Debug)]
enum Step {
    Pass(Duration),
    Claim { wish: Wish, echo: bool, gone: Option<(u16, Pick)> },
    Renew { slot: u16, owner: Option<u64>, token: Pick, ttl: Duration, id_time: bool },
    Release { slot: u16, owner: Option<u64>, token: Pick, last_used: Option<i64> },
    Withdraw { owner: u64 },
    Revoke { slot: u16, expect: Option<Pick> },
    Resize { size: u32 },
}

fn run(context: &Context<'_>) -> Outcome<()> {
    try_sequences(sequence, |steps| replay(context, steps))
}

fn of<T: Copy>(random: &mut Random, all: &[T], otherwise: T) -> T {
    let index = random.below(u64::try_from(all.len()).unwrap_or(1));
    usize::try_from(index).ok().and_then(|index| all.get(index).copied()).unwrap_or(otherwise)
}

fn sequence(seed: u64) -> Vec<Step> {
    let mut random = Random(seed);
    let millis = |random: &mut Random, all: &[u64]| Duration::from_millis(of(random, all, 1));
    (0..LENGTH)
        .map(|_| {
            let slot = u16::try_from(random.below(7)).unwrap_or(0);
            let owner = 1 + random.below(6);
            // Mostly whoever holds the slot.
            let by = (random.below(5) == 0).then_some(owner);
            let ttl = millis(&mut random, &[0, 1, 3, 20, 20, 60, 200]);
            let id_time = random.below(3) > 0;
            let token = Pick::any(&mut random);
            match random.below(24) {
                0..=4 => Step::Pass(Duration::from_micros(random.below(30_000))),
                5..=12 => {
                    let size = of(&mut random, &SIZES, 3);
                    let (first, last) = (random.below(4), random.below(8));
                    let range = match random.below(3) {
                        0 => SlotRange::new(first as u16, (first + last) as u16).unwrap_or(SlotRange::ALL),
                        _ => SlotRange::ALL,
                    };
                    let identity = of(&mut random, &IDENTITIES, None);
                    let wish = Wish {
                        owner,
                        attempt: 0,
                        again: random.below(3) == 0,
                        size: if random.below(4) == 0 { size } else { 3 },
                        ttl,
                        range,
                        cool_down: millis(&mut random, &[0, 5, 5, 30]),
                        identity,
                        exclusive: identity.is_some() && random.below(4) == 0,
                        gone: None,
                        id_time,
                    };
                    let gone = (random.below(4) == 0).then_some((slot, token));
                    Step::Claim { wish, echo: random.below(6) == 0, gone }
                }
                13..=16 => Step::Renew { slot, owner: by, token, ttl, id_time },
                17..=20 => {
                    let near = i64::try_from(random.below(40_000)).unwrap_or(0) - 35_000;
                    Step::Release {
                        slot,
                        owner: by,
                        token,
                        last_used: (random.below(2) == 0).then_some(near),
                    }
                }
                21 => Step::Withdraw { owner },
                22 => Step::Revoke { slot, expect: (random.below(2) == 0).then_some(token) },
                _ => Step::Resize { size: of(&mut random, &SIZES, 3) },
            }
        })
        .collect()
}

fn replay(context: &Context<'_>, steps: &[Step]) -> Outcome<()> {
    let fixture = context.subject.fresh().map_err(told)?;
    let store = fixture.store();
    let pool = super::super::context::name(POOL)?;
    let _ = block_on(store.resize_pool(pool.clone(), 4)).map_err(told)?;
    let began = block_on(store.slots(pool.clone())).map_err(told)?.wall;
    let mut model = PoolModel::of(4);
    // A withdrawn owner is never used again: the next hold draws another.
    let mut lives = [0_u64; 8];
    let (mut attempts, mut now) = (0_u64, Duration::ZERO);
    for (index, step) in steps.iter().enumerate() {
        let life = |owner: u64| {
            owner + 10 * usize::try_from(owner).ok().and_then(|at| lives.get(at)).copied().unwrap_or(0)
        };
        let holder = |slot: u16, owner: Option<u64>, model: &PoolModel| {
            let holds = |look: &Look| if look.0 == slot { look.2.map(|(owner, ..)| owner) } else { None };
            owner.map_or_else(|| model.look(now).iter().find_map(holds).unwrap_or(1), life)
        };
        let op = match step.clone() {
            Step::Pass(time) => {
                fixture.pass(time);
                now = now.saturating_add(time);
                continue;
            }
            Step::Claim { wish, echo, gone } => {
                attempts += u64::from(!echo);
                let gone = gone.map(|(slot, token)| (slot, pick(&model, slot, token)));
                Op::Claim(Wish { owner: life(wish.owner), attempt: attempts.max(1), gone, ..wish })
            }
            Step::Renew { slot, owner, token, ttl, id_time } => {
                let owner = holder(slot, owner, &model);
                Op::Renew { slot, owner, token: pick(&model, slot, token), ttl, id_time }
            }
            Step::Release { slot, owner, token, last_used } => {
                let owner = holder(slot, owner, &model);
                let stamp = |near: i64| {
                    let off = Duration::from_micros(near.unsigned_abs());
                    let mark = model.mark(slot);
                    if near < 0 { mark.saturating_sub(off) } else { mark.saturating_add(off) }
                };
                Op::Release { slot, owner, token: pick(&model, slot, token), last_used: last_used.map(stamp) }
            }
            Step::Withdraw { owner } => {
                let withdrawn = life(owner);
                if let Some(life) = usize::try_from(owner).ok().and_then(|at| lives.get_mut(at)) {
                    *life += 1;
                }
                Op::Withdraw { owner: withdrawn }
            }
            Step::Revoke { slot, expect } => {
                Op::Revoke { slot, expect: expect.map(|token| pick(&model, slot, token)) }
            }
            Step::Resize { size } => Op::Resize { size },
        };
        let (said, wall) = perform(&*store, &pool, &op)?;
        let clock = began.saturating_add(now);
        ensure!(
            wall.is_none_or(|wall| wall == clock),
            "step {index}: at {wall:?} by its clock, not {clock:?}"
        );
        let expected = model.ask(&op, now, clock, chosen(&op, &said), |_| false);
        ensure!(
            said == expected,
            "step {index}, {op:?} at {now:?}: the store said {said:?}, the core {expected:?}"
        );
        let (found, expected) = (look(&*store, &pool)?, (model.size(), model.look(now)));
        ensure!(
            found == expected,
            "step {index}, after {op:?}: the store has {found:?}, the core {expected:?}"
        );
    }
    Ok(())
}

fn pick(model: &PoolModel, slot: u16, pick: Pick) -> u64 {
    let (last, current) = model.tokens(slot);
    pick.token(last, current)
}

/// The slot and the token that the store has issued.
pub(super) fn chosen(op: &Op, said: &Said) -> Option<(u16, u64)> {
    match (op, said) {
        (_, Said::Granted { slot, token, .. }) => Some((*slot, *token)),
        (Op::Revoke { slot, .. }, Said::Burnt { token }) => Some((*slot, *token)),
        _ => None,
    }
}

fn look(store: &dyn Store, pool: &ResourceName) -> Outcome<(u32, Vec<Look>)> {
    let seen = block_on(store.slots(pool.clone())).map_err(told)?;
    let slots = seen.slots.into_iter().map(|slot| {
        let holder = slot.occupant.map(|who| (who.owner.value(), who.token.value(), who.remaining));
        let last = slot.last_issued.map_or(0, FencingToken::value);
        (slot.slot, last, holder, slot.identity, slot.mark)
    });
    Ok((seen.size, slots.collect()))
}

/// Asks the store, and takes down what it said, with its clock where it told it.
fn perform(store: &dyn Store, pool: &ResourceName, op: &Op) -> Outcome<(Said, Option<Duration>)> {
    match ask(store, pool, op) {
        Ok(said) => Ok(said),
        Err(error) => match refused(&error) {
            Some(said) => Ok((said, None)),
            None => Err(told(error)),
        },
    }
}

/// The errors that the model knows.
pub(super) fn refused(error: &StoreError) -> Option<Said> {
    match error.kind() {
        ErrorKind::Superseded => Some(Said::Superseded),
        ErrorKind::PoolSize { size } => Some(Said::PoolSize(size)),
        _ => None,
    }
}

/// What the store says.
pub(super) fn ask(
    store: &dyn Store,
    pool: &ResourceName,
    op: &Op,
) -> Result<(Said, Option<Duration>), StoreError> {
    let token = |token: u64| FencingToken::new(token).unwrap_or(FencingToken::FIRST);
    let lease = |slot: u16, owner: u64, shown: u64| {
        SlotRef::new(pool.clone(), slot, OwnerId::new(owner), token(shown), None)
    };
    let window = |lease: &SlotLease| lease.window.map(|window| (window.after, window.until));
    Ok(match op {
        Op::Claim(wish) => {
            let mut claim = PoolClaim::new(pool.clone(), wish.size, OwnerId::new(wish.owner), wish.ttl)
                .with_attempt(wish.attempt)
                .with_range(wish.range)
                .with_cool_down(wish.cool_down);
            claim.identity = wish.identity.map(str::to_owned);
            claim.exclusive_identity = wish.exclusive;
            claim.gone = wish.gone.map(|(slot, shown)| Gone { slot, token: token(shown) });
            claim.id_time = wish.id_time;
            let answer = if wish.again { store.reclaim_slot(claim) } else { store.claim_slot(claim) };
            match block_on(answer)? {
                Claimed::Granted(held) => {
                    let said = Said::Granted {
                        slot: held.slot,
                        token: held.token.value(),
                        ttl: held.ttl,
                        window: window(&held),
                    };
                    (said, Some(held.wall))
                }
                Claimed::Rejected(why) => (Said::Unclaimed(why), None),
            }
        }
        Op::Renew { slot, owner, token, ttl, id_time } => {
            match block_on(store.renew_slot(lease(*slot, *owner, *token), *ttl, *id_time))? {
                SlotRenewed::Renewed(held) => {
                    (Said::Renewed { ttl: held.ttl, window: window(&held) }, Some(held.wall))
                }
                SlotRenewed::Rejected(why) => (rejected(&why), None),
            }
        }
        Op::Release { slot, owner, token, last_used } => {
            let answer = store.release_slot(lease(*slot, *owner, *token), *last_used);
            (released(block_on(answer)?), None)
        }
        Op::Withdraw { owner } => {
            (released(block_on(store.withdraw_slot(pool.clone(), OwnerId::new(*owner)))?), None)
        }
        Op::Revoke { slot, expect } => {
            match block_on(store.revoke_slot(pool.clone(), *slot, expect.map(token), None))? {
                Revoked::Burnt(token) => (Said::Burnt { token: token.value() }, None),
                Revoked::Rejected(why) => (rejected(&why), None),
            }
        }
        Op::Resize { size } => match block_on(store.resize_pool(pool.clone(), *size))? {
            Resized::Resized => (Said::Resized, None),
            Resized::InUse { slot, remaining } => (Said::InUse(slot, remaining), None),
        },
    })
}

fn released(answer: Released) -> Said {
    match answer {
        Released::Released => Said::Released,
        Released::AlreadyReleased => Said::AlreadyReleased,
        // No slot is held back.
        Released::Retained(left) => Said::Renewed { ttl: left, window: None },
        Released::Rejected(why) => rejected(&why),
    }
}

fn rejected(why: &Rejected) -> Said {
    Said::Rejected(why.reason, why.occupant.as_ref().map(|who| (who.owner.value(), who.token.value())))
}
