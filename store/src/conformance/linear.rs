//! Many clients at once, on a bad network: what they saw must be what one after another could have seen.
//!
//! The history of each resource is searched for an order of its operations that the core agrees with and that keeps
//! every one that had ended before another began in front of it (Wing and Gong 1993, with Lowe's memory of the
//! configurations seen). A request whose answer was lost may have taken effect at any time since, or never.

use std::collections::HashSet;
use std::fmt::{Debug, Write as _};
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::context::{Context, Outcome, told};
use super::model::{Model, Op, Said};
use super::random::ask;
use super::subject::Need;
use super::{Case, block_on, case};
use crate::owner::random as seed_from_the_system;
use crate::{ErrorKind, Fault, FaultStore, Undecided};

pub(super) const CASES: &[Case] = &[
    case("16 clients on one resource see one history", Need::Nothing, one),
    case("16 clients on four resources see one history of each", Need::Nothing, four),
    case("16 clients on a bad network see one history", Need::Nothing, faulty),
];

const CLIENTS: u64 = 16;
const ROUNDS: u32 = 4;
/// Calls of each client; fewer on a bad network, since every lost answer doubles what may have happened.
const CALLS: u64 = 14;
const FAULTY_CALLS: u64 = 8;

/// Configurations that a search may visit; far more than a right history needs, unless many answers were lost at once.
const PATIENCE: usize = 500_000;

/// What a search came to that found no contradiction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    /// One that the core agrees with.
    Found,
    /// None, after as many configurations as a search may visit. There may be one.
    Undecided,
}

/// One operation as its client saw it.
#[derive(Clone, Debug)]
pub(super) struct Seen<O, S> {
    /// What it was about.
    pub(super) resource: u64,
    pub(super) op: O,
    /// `None` where the answer was lost.
    pub(super) said: Option<S>,
    pub(super) began: u64,
    pub(super) ended: u64,
}

/// What does one operation after another, as the core does.
pub(super) trait Sequential: Clone + Eq + Hash {
    type Op: Debug;
    type Said: Debug;
    /// What a store was free to choose in an operation.
    type Choice;

    /// All that the store may have chosen.
    fn choices(
        &self,
        seen: &Seen<Self::Op, Self::Said>,
        history: &[&Seen<Self::Op, Self::Said>],
    ) -> Vec<Self::Choice>;

    /// Does what was asked. The clock stands still: nothing expires in a round.
    fn perform(&mut self, seen: &Seen<Self::Op, Self::Said>, choice: Self::Choice) -> Self::Said;

    /// The same answer, whatever the clock said.
    fn alike(said: &Self::Said, expected: &Self::Said) -> bool;
}

fn one(context: &Context<'_>) -> Outcome<()> {
    rounds(context, 1, false)
}

fn four(context: &Context<'_>) -> Outcome<()> {
    rounds(context, 4, false)
}

fn faulty(context: &Context<'_>) -> Outcome<()> {
    rounds(context, 2, true)
}

fn rounds(context: &Context<'_>, resources: u64, faulty: bool) -> Outcome<()> {
    explained(ROUNDS, || {
        let seed = seed_from_the_system().map_err(told)?;
        let fixture = context.subject.fresh().map_err(told)?;
        let context = Context::new(context.subject, fixture);
        let order = AtomicU64::new(1);
        // Tokens begin wherever the store has them begin.
        let mut models = Vec::new();
        for resource in 0..resources {
            models.push(first_hold(&context, resource)?);
        }
        let histories: Vec<Outcome<Vec<Seen<Op, Said>>>> = thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|client| {
                    let (context, order) = (&context, &order);
                    scope
                        .spawn(move || play(context, order, seed ^ (client << 32), client, resources, faulty))
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
        let mut all = Order::Found;
        for (resource, model) in (0..resources).zip(models) {
            let of_one: Vec<Seen<Op, Said>> =
                history.iter().filter(|seen| seen.resource == resource).cloned().collect();
            let order = search(&of_one, model)
                .map_err(|error| format!("resource {resource}, seed {seed}: {error}"))?;
            if order == Order::Undecided {
                all = order;
            }
        }
        Ok(all)
    })
}

/// Plays rounds until so many have been explained. One whose search gives up says nothing, and another takes its place; where
/// most do, nothing was checked.
pub(super) fn explained(rounds: u32, mut play: impl FnMut() -> Outcome<Order>) -> Outcome<()> {
    let (mut found, mut undecided) = (0, 0);
    while found < rounds {
        match play()? {
            Order::Found => found += 1,
            Order::Undecided => undecided += 1,
        }
        ensure!(
            undecided <= rounds,
            "the search gave up after {PATIENCE} configurations in {undecided} rounds, and explained {found}"
        );
    }
    Ok(())
}

/// A hold before the round, and the model after it.
fn first_hold(context: &Context<'_>, resource: u64) -> Outcome<Model> {
    let mut model = Model::default();
    let owner = 1_000_000;
    let said = |op: &Op| match ask(&*context.store(), &format!("resource-{resource}"), op) {
        Ok(said) => Ok(said),
        Err(Ok(error)) => Err(told(error)),
        Err(Err(message)) => Err(message),
    };
    let op = Op::Acquire { owner, attempt: 1, again: false, ttl: context.units(10) };
    let token = expect!(said(&op)?, Said::Granted { token, .. } => token, "expected a grant");
    let _ = model.ask(&op, Duration::ZERO, Some(token));
    let op = Op::Release { owner, token };
    let released = said(&op)?;
    ensure!(released == Said::Released, "expected a release: found {released:?}");
    let _ = model.ask(&op, Duration::ZERO, None);
    Ok(model)
}

/// What one client does: mostly what a holder does, with some wrong tokens.
fn play(
    context: &Context<'_>,
    order: &AtomicU64,
    seed: u64,
    client: u64,
    resources: u64,
    faulty: bool,
) -> Outcome<Vec<Seen<Op, Said>>> {
    // Half of the clients come through another connection, where there is one.
    let store = match context.fixture.another() {
        Some(other) if client % 2 == 1 => other,
        _ => context.store(),
    };
    let network = FaultStore::scripted(store, []);
    let mut state = seed;
    let mut random = move |limit: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit.max(1)
    };
    // Longer than the round takes: nothing expires while it is looked at.
    let ttl = context.units(10_000).min(context.store().capabilities().max_ttl);
    let mut seen = Vec::new();
    let mut owner = 1 + client * 1_000;
    let mut token = None;
    let mut attempt = 0;
    let mut resource = random(resources);
    for _ in 0..if faulty { FAULTY_CALLS } else { CALLS } {
        let op = match (token, random(10)) {
            (Some(token), 0..=2) => Op::Renew { owner, token, ttl },
            (Some(token), 3..=7) => Op::Release { owner, token },
            (_, 8) => Op::Withdraw { owner },
            (_, 9) if random(3) == 0 => Op::Revoke { expect: token },
            (held, _) => {
                if held.is_none() {
                    resource = random(resources);
                    attempt = 0;
                    owner += 1;
                }
                attempt += 1;
                Op::Acquire { owner, attempt, again: random(2) == 0, ttl }
            }
        };
        let fault = match random(20) {
            0 if faulty => Fault::DropReply,
            1 if faulty => Fault::DropRequest,
            2 if faulty => Fault::Double,
            3 if faulty => Fault::Late,
            _ => Fault::Pass,
        };
        network.push(fault);
        let began = order.fetch_add(1, Ordering::SeqCst);
        let answer = ask(&network, &format!("resource-{resource}"), &op);
        let ended = order.fetch_add(1, Ordering::SeqCst);
        let said = match answer {
            Ok(said) => Some(said),
            Err(Ok(error)) if error.kind() == ErrorKind::Superseded => Some(Said::Superseded),
            Err(Ok(error)) if error.undecided() == Undecided::Unknown => None,
            Err(Ok(error)) => return Err(told(error)),
            Err(Err(message)) => return Err(message),
        };
        match (&op, &said) {
            (Op::Acquire { .. }, Some(Said::Granted { token: granted, .. })) => token = Some(*granted),
            (Op::Release { .. } | Op::Withdraw { .. }, Some(_)) => token = None,
            _ => {}
        }
        if matches!(op, Op::Withdraw { .. }) {
            owner += 1;
            attempt = 0;
            token = None;
        }
        if fault == Fault::Double {
            seen.push(Seen { resource, op: op.clone(), said: None, began, ended: u64::MAX });
        }
        let ended = if said.is_some() { ended } else { u64::MAX };
        seen.push(Seen { resource, op, said, began, ended });
        if random(4) == 0 {
            block_on(network.deliver_late());
        }
    }
    block_on(network.deliver_late());
    Ok(seen)
}

/// Looks for an order that the core agrees with.
pub(super) fn search<M: Sequential>(history: &[Seen<M::Op, M::Said>], model: M) -> Outcome<Order> {
    let mut order: Vec<&Seen<M::Op, M::Said>> = history.iter().collect();
    order.sort_by_key(|seen| seen.began);
    let mut visited: HashSet<(Vec<u64>, M)> = HashSet::new();
    // Depth first, with a stack of its own: a history may be long.
    let mut stack = vec![(vec![0_u64; order.len().div_ceil(64)], model)];
    // The configuration in which most fit.
    let mut furthest = (0, Vec::new());
    while let Some((done, model)) = stack.pop() {
        let open = || order.iter().enumerate().filter(|(index, _)| !is_set(&done, *index));
        // Those whose answer is known have to be placed; the others may.
        let Some(first_end) =
            open().filter(|(_, seen)| seen.said.is_some()).map(|(_, seen)| seen.ended).min()
        else {
            return Ok(Order::Found);
        };
        let fit = order.len() - open().count();
        if fit > furthest.0 {
            furthest = (fit, done.clone());
        }
        if visited.len() >= PATIENCE {
            return Ok(Order::Undecided);
        }
        let mut branches = Vec::new();
        'placing: for (index, seen) in open() {
            if seen.began > first_end {
                break;
            }
            for choice in model.choices(seen, &order) {
                let mut next = model.clone();
                let expected = next.perform(seen, choice);
                let is_known = seen.said.is_some();
                if seen.said.as_ref().is_some_and(|said| !M::alike(said, &expected))
                    || (!is_known && next == model)
                {
                    // A lost request without effect is as good as one that never came.
                    continue;
                }
                let mut placed = done.clone();
                if let Some(word) = placed.get_mut(index / 64) {
                    *word |= 1 << (index % 64);
                }
                if is_known && next == model {
                    // Without effect here, it fits here whatever else is placed later.
                    branches = vec![(placed, next)];
                    break 'placing;
                }
                // The last is tried first: answers that are known, then effects that somebody must have seen.
                branches.insert(if is_known { branches.len() } else { 0 }, (placed, next));
            }
        }
        for branch in branches {
            if visited.insert(branch.clone()) {
                stack.push(branch);
            }
        }
    }
    let (fit, done) = furthest;
    let mut text = format!(
        "no order of its {} operations explains what the clients saw (at most {fit} of them fit). Each with its beginning and \
         end, and ! where it did not fit:",
        order.len()
    );
    for (index, Seen { resource, op, said, began, ended }) in order.into_iter().enumerate() {
        let sign = if is_set(&done, index) { ' ' } else { '!' };
        let ended = if *ended == u64::MAX { "-".to_owned() } else { ended.to_string() };
        let _ = write!(text, "\n  {sign} {began}..{ended} on {resource}: {op:?} -> {said:?}");
    }
    Err(text)
}

fn is_set(bits: &[u64], index: usize) -> bool {
    bits.get(index / 64).is_some_and(|word| (word >> (index % 64)) & 1 == 1)
}

impl Sequential for Model {
    type Op = Op;
    type Said = Said;
    type Choice = Option<u64>;

    /// The tokens that an operation may have issued. Of a grant whose answer was lost it is one that somebody was told of
    /// its owner, or any: a store need not count by ones.
    fn choices(&self, seen: &Seen<Op, Said>, history: &[&Seen<Op, Said>]) -> Vec<Option<u64>> {
        match (&seen.said, &seen.op) {
            (Some(Said::Granted { token, .. } | Said::Burnt { token }), _) => vec![Some(*token)],
            (None, Op::Acquire { owner, .. }) => {
                let mut tokens = vec![None];
                for other in history {
                    // Others were told who holds it; the owner itself, by an echo.
                    let named = match (&other.said, &other.op) {
                        (Some(Said::Rejected(_, Some((holder, token)))), _) => Some((holder, token)),
                        (Some(Said::Granted { token, .. }), Op::Acquire { owner, .. }) => {
                            Some((owner, token))
                        }
                        _ => None,
                    };
                    let found = named
                        .filter(|(holder, token)| *holder == owner && **token > self.last())
                        .map(|(_, token)| *token);
                    if found.is_some() && !tokens.contains(&found) {
                        tokens.push(found);
                    }
                }
                tokens
            }
            _ => vec![None],
        }
    }

    fn perform(&mut self, seen: &Seen<Op, Said>, chosen: Option<u64>) -> Said {
        self.ask(&seen.op, Duration::ZERO, chosen)
    }

    fn alike(said: &Said, expected: &Said) -> bool {
        match (said, expected) {
            (Said::Granted { token, .. }, Said::Granted { token: other, .. }) => token == other,
            (Said::Renewed { .. }, Said::Renewed { .. }) => true,
            (said, expected) => said == expected,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(orders: &[Outcome<Order>]) -> (Outcome<()>, usize) {
        let mut played = 0;
        let outcome = explained(2, || {
            played += 1;
            orders.get(played - 1).cloned().unwrap_or(Ok(Order::Undecided))
        });
        (outcome, played)
    }

    #[test]
    fn another_round_takes_the_place_of_one_that_says_nothing() {
        let found = Ok(Order::Found);
        assert_eq!(rounds(&[found.clone(), found.clone()]), (Ok(()), 2));
        assert_eq!(rounds(&[found.clone(), Ok(Order::Undecided), Ok(Order::Undecided), found]), (Ok(()), 4));
    }

    #[test]
    fn rounds_that_say_nothing_are_no_success() {
        let (outcome, played) = rounds(&[Ok(Order::Found)]);
        assert_eq!(played, 4);
        assert!(outcome.unwrap_err().contains("in 3 rounds, and explained 1"));
    }

    #[test]
    fn a_contradiction_ends_it() {
        let wrong = || "no order".to_owned();
        assert_eq!(rounds(&[Ok(Order::Undecided), Err(wrong()), Ok(Order::Found)]), (Err(wrong()), 2));
    }
}
