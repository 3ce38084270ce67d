//! Many clients of one pool at once, on a bad network: what they saw must be what one after another could have seen.
//!
//! A claim passes over slots that others are deciding on, so that any slot which it may have is right, and one that could
//! have had only such slots may say that it was busy.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use lease_machines::SlotRange;

use super::super::context::{Context, Outcome, told};
use super::super::linear::{Seen, Sequential, explained, search};
use super::super::random::{Random, seed};
use super::super::subject::Need;
use super::super::{Case, block_on, case};
use super::POOL;
use super::model::{Op, PoolModel, Said, Wish};
use super::random::{ask, chosen, refused};
use crate::{Fault, FaultStore, Unclaimed, Undecided};

pub(super) const CASES: &[Case] = &[
    case("16 clients of one pool see one history", Need::Slots, calm),
    case("8 clients of one pool on a bad network see one history", Need::Slots, faulty),
];

const ROUNDS: u32 = 4;
const SIZE: u32 = 5;

type Saw = Seen<Op, Said>;

fn calm(context: &Context<'_>) -> Outcome<()> {
    rounds(context, 16, 12, false)
}

/// With fewer calls, since every lost answer multiplies what may have happened.
fn faulty(context: &Context<'_>) -> Outcome<()> {
    rounds(context, 8, 5, true)
}

fn rounds(context: &Context<'_>, clients: u64, calls: u64, faulty: bool) -> Outcome<()> {
    let mut round = 0;
    explained(ROUNDS, || {
        round += 1;
        let seed = seed()?.wrapping_add(round);
        let fixture = context.subject.fresh().map_err(told)?;
        let context = Context::new(context.subject, fixture);
        let order = AtomicU64::new(1);
        let histories: Vec<Outcome<Vec<Saw>>> = thread::scope(|scope| {
            let clients: Vec<_> = (0..clients)
                .map(|client| {
                    let (context, order) = (&context, &order);
                    scope.spawn(move || play(context, order, seed ^ (client << 32), client, calls, faulty))
                })
                .collect();
            clients
                .into_iter()
                .map(|client| client.join().map_err(|_| "a client panicked".to_owned()).and_then(|seen| seen))
                .collect()
        });
        let mut history = Vec::new();
        for seen in histories {
            history.extend(seen?);
        }
        search(&history, PoolModel::of(SIZE)).map_err(|error| format!("seed {seed}: {error}"))
    })
}

/// What one client does: mostly what a holder does.
fn play(
    context: &Context<'_>,
    order: &AtomicU64,
    seed: u64,
    client: u64,
    calls: u64,
    faulty: bool,
) -> Outcome<Vec<Saw>> {
    // Half of the clients come through another connection, where there is one.
    let store = match context.fixture.another() {
        Some(other) if client % 2 == 1 => other,
        _ => context.store(),
    };
    let pool = super::super::context::name(POOL)?;
    let network = FaultStore::scripted(store, []);
    let mut random = Random(seed);
    // Longer than the round takes: nothing expires while it is looked at.
    let ttl = context.units(10_000).min(context.store().capabilities().max_ttl);
    let mut seen = Vec::new();
    let mut owner = 1 + client * 1_000;
    let (mut held, mut attempt) = (None, 0);
    for _ in 0..calls {
        let op = match (held, random.below(10)) {
            (Some((slot, token)), 0..=1) => Op::Renew { slot, owner, token, ttl, id_time: false },
            (Some((slot, token)), 2..=7) => Op::Release { slot, owner, token, last_used: None },
            (_, 8) => Op::Withdraw { owner },
            (Some((slot, token)), 9) if random.below(4) == 0 => Op::Revoke { slot, expect: Some(token) },
            _ => {
                attempt += 1;
                Op::Claim(Wish {
                    owner,
                    attempt,
                    again: random.below(2) == 0,
                    size: SIZE,
                    ttl,
                    range: SlotRange::ALL,
                    cool_down: Duration::ZERO,
                    identity: (random.below(2) == 0).then_some("a"),
                    exclusive: false,
                    gone: None,
                    id_time: false,
                })
            }
        };
        let fault = match random.below(20) {
            0 if faulty => Fault::DropReply,
            1 if faulty => Fault::DropRequest,
            2 if faulty => Fault::Double,
            3 if faulty => Fault::Late,
            _ => Fault::Pass,
        };
        network.push(fault);
        let began = order.fetch_add(1, Ordering::SeqCst);
        let answer = ask(&network, &pool, &op);
        let ended = order.fetch_add(1, Ordering::SeqCst);
        let said = match answer {
            Ok((said, _)) => Some(said),
            Err(error) if error.undecided() == Undecided::Unknown => None,
            Err(error) => Some(refused(&error).ok_or_else(|| told(error))?),
        };
        match (&op, &said) {
            (Op::Claim(_), Some(Said::Granted { slot, token, .. })) => held = Some((*slot, *token)),
            (Op::Release { .. }, Some(_)) => {
                // The next hold has an owner of its own.
                (held, attempt) = (None, 0);
                owner += 1;
            }
            _ => {}
        }
        if matches!(op, Op::Withdraw { .. }) {
            (held, attempt) = (None, 0);
            owner += 1;
        }
        if fault == Fault::Double {
            seen.push(Seen { resource: 0, op: op.clone(), said: None, began, ended: u64::MAX });
        }
        let ended = if said.is_some() { ended } else { u64::MAX };
        seen.push(Seen { resource: 0, op, said, began, ended });
        if random.below(4) == 0 {
            block_on(network.deliver_late());
        }
    }
    block_on(network.deliver_late());
    Ok(seen)
}

/// The slot that a claim got, and the token where it is known.
#[derive(Clone, Copy)]
pub(super) enum Choice {
    Known(Option<(u16, u64)>),
    Lost(u16),
}

impl Sequential for PoolModel {
    type Op = Op;
    type Said = Said;
    type Choice = Choice;

    fn choices(&self, seen: &Saw, history: &[&Saw]) -> Vec<Choice> {
        match (&seen.said, &seen.op) {
            (Some(said), op) => vec![Choice::Known(chosen(op, said))],
            (None, Op::Claim(wish)) => {
                // Any slot, under any token; or one that somebody was told of.
                let slots = (0..=u16::MAX).take(usize::try_from(SIZE).unwrap_or(0));
                let named = history.iter().filter_map(|other| match (&other.said, &other.op) {
                    (Some(Said::Granted { slot, token, .. }), Op::Claim(other))
                        if other.owner == wish.owner =>
                    {
                        Some((*slot, *token))
                    }
                    (
                        Some(Said::Rejected(_, Some((holder, token)))),
                        Op::Renew { slot, .. } | Op::Release { slot, .. } | Op::Revoke { slot, .. },
                    ) if *holder == wish.owner => Some((*slot, *token)),
                    _ => None,
                });
                let mut named: Vec<_> = named.filter(|(slot, token)| *token > self.tokens(*slot).0).collect();
                named.sort_unstable();
                named.dedup();
                let named = named.into_iter().map(|named| Choice::Known(Some(named)));
                slots.map(Choice::Lost).chain(named).collect()
            }
            (None, _) => vec![Choice::Known(None)],
        }
    }

    fn perform(&mut self, seen: &Saw, choice: Choice) -> Said {
        let (chosen, slot) = match choice {
            Choice::Known(chosen) => (chosen, chosen.map(|(slot, _)| slot)),
            Choice::Lost(slot) => (None, Some(slot)),
        };
        let busy = seen.said == Some(Said::Unclaimed(Unclaimed::Busy));
        let locked = |number: u16| busy || slot.is_some_and(|slot| slot != number);
        self.ask(&seen.op, Duration::ZERO, Duration::ZERO, chosen, locked)
    }

    fn alike(said: &Said, expected: &Said) -> bool {
        let exhausted = |said: &Said| matches!(said, Said::Unclaimed(Unclaimed::Exhausted { .. }));
        match (said, expected) {
            (Said::Granted { slot, token, .. }, Said::Granted { slot: other, token: issued, .. }) => {
                (slot, token) == (other, issued)
            }
            (Said::Renewed { .. }, Said::Renewed { .. }) => true,
            // Those who were in the way may have taken what there was.
            (Said::Unclaimed(Unclaimed::Busy), expected) if exhausted(expected) => true,
            (said, expected) => said == expected || (exhausted(said) && exhausted(expected)),
        }
    }
}
