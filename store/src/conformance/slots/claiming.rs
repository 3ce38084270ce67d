//! Which slot a claim gets.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use lease_machines::{Gone, OwnerId, SlotRange};

use super::super::context::{Context, Outcome, told};
use super::super::subject::Need;
use super::super::{Case, block_on, case};
use crate::{Claimed, PoolClaim, Revoked, Store, Unclaimed};

pub(super) const CASES: &[Case] = &[
    case("each claim gets a slot of its own, until there is none", Need::Slots, different),
    case("an identity returns to the slot that it held last", Need::Slots, sticky),
    case("a freed slot cools down before another has it", Need::Slots, cool_down),
    case("never used slots come first, then the one free for longest", Need::Slots, order),
    case("a live slot is taken over by an exclusive identity or a proof alone", Need::Slots, take_over),
    case("a revoked slot is closed until its lease would have ended", Need::Slots, revoked),
    case("a claim keeps to its range", Need::Slots, range),
    case("two connections share a pool", Need::SlotsAnother, shared),
    case("16 claims at once get 16 slots", Need::Slots, at_once),
];

fn different(context: &Context<'_>) -> Outcome<()> {
    let mut seen = BTreeSet::new();
    for owner in 1..=4 {
        let held = context.slot_of(owner)?;
        ensure!(seen.insert(held.slot) && held.slot < 4, "slot {} came after {seen:?}", held.slot);
        ensure!(context.roughly(held.ttl, context.units(10)), "granted for {:?}", held.ttl);
        ensure!(held.window.is_none(), "no ID time was asked for: {held:?}");
        context.pass(1);
    }
    let why = context.no_slot(context.slot_claim(5)?)?;
    let next = expect!(why, Unclaimed::Exhausted { next_chance: Some(next) } => next, "expected exhaustion");
    // The first lease has six units left, then its slot rests for two.
    ensure!(context.roughly(next, context.units(8)), "the next chance is in {next:?}");
    context.pass(8);
    let _ = context.slot(context.slot_claim(5)?.with_attempt(2))?;
    Ok(())
}

fn sticky(context: &Context<'_>) -> Outcome<()> {
    let claim =
        |owner: u64, identity: &str| Ok::<_, String>(context.slot_claim(owner)?.with_identity(identity));
    let first = context.slot(claim(1, "a")?)?;
    let second = context.slot(claim(2, "b")?)?;
    context.free_slot(1, first)?;
    context.free_slot(2, second)?;
    // At once, and in the other order.
    let again = context.slot(claim(3, "b")?)?;
    ensure!(again.slot == second.slot, "b came back to {}, not to {}", again.slot, second.slot);
    ensure!(again.token > second.token, "token {} after {}", again.token, second.token);
    // After a crash, too, and only when its lease is over.
    let other = context.slot(claim(4, "b")?)?;
    ensure!(other.slot != second.slot, "a live slot was handed to its own identity");
    context.pass(11);
    let back = context.slot(claim(5, "b")?)?;
    ensure!([second.slot, other.slot].contains(&back.slot), "b came back to {}", back.slot);
    let exact = context.slot(claim(6, "B")?)?;
    ensure!(![second.slot, other.slot].contains(&exact.slot), "B is taken for b");
    Ok(())
}

fn cool_down(context: &Context<'_>) -> Outcome<()> {
    let mut all = Vec::new();
    for owner in 1..=4 {
        all.push(context.slot(context.slot_claim(owner)?.with_identity("old"))?);
    }
    let (Some(first), Some(second)) = (all.first().copied(), all.get(1).copied()) else {
        return Err("no slots".into());
    };
    let claim = context.slot_claim(5)?;
    ensure!(context.room(claim.clone())? == (0, 4), "all are held");
    context.free_slot(1, first)?;
    let why = context.no_slot(claim.clone())?;
    ensure!(context.room(claim.clone())? == (0, 4), "the first rests");
    ensure!(context.room(claim.clone().with_cool_down(Duration::ZERO))? == (1, 4), "it has rested");
    let next = expect!(why, Unclaimed::Exhausted { next_chance: Some(next) } => next, "while it rests");
    ensure!(context.roughly(next, context.units(2)), "the next chance is in {next:?}");
    context.pass(2);
    ensure!(context.room(claim.clone())? == (1, 4), "the first has rested");
    let only = |number| Ok::<_, String>(claim.clone().with_range(SlotRange::only(number)));
    ensure!(context.room(only(first.slot)?)? == (1, 1), "it is all that this range has");
    ensure!(context.room(only(second.slot)?)? == (0, 1), "the second is held");
    let none = context.room(PoolClaim { size: u32::from(first.slot), ..only(first.slot)? })?;
    ensure!(none == (0, 0), "a claim that may have none is told of {none:?}");
    let taken = context.slot(context.slot_claim(5)?.with_attempt(2))?;
    ensure!(taken.slot == first.slot, "slot {} instead of the one that has rested", taken.slot);
    // From the expiry on where nobody released; eight units are left then. Some engines end a lease a moment late.
    context.pass(9);
    // A longer rest than the others', for machines that come back late.
    let why = context.no_slot(context.slot_claim(6)?.with_cool_down(context.units(8)))?;
    ensure!(matches!(why, Unclaimed::Exhausted { .. }), "rested too shortly after its expiry: {why:?}");
    // Who says that less is enough has it at once.
    let bold = context.slot(context.slot_claim(6)?.with_attempt(2).with_cool_down(Duration::ZERO))?;
    ensure!(bold.slot == second.slot, "slot {} instead of the one free for longest", bold.slot);
    context.pass(2);
    let _ = context.slot_of(7)?;
    Ok(())
}

fn order(context: &Context<'_>) -> Outcome<()> {
    let claim = |owner: u64| Ok::<_, String>(context.slot_claim(owner)?.with_cool_down(Duration::ZERO));
    let mut held = Vec::new();
    for owner in 1..=3 {
        held.push((owner, context.slot(claim(owner)?)?));
    }
    let slots: Vec<u16> = held.iter().map(|(_, held)| held.slot).collect();
    ensure!(slots == [0, 1, 2], "never used slots came as {slots:?}");
    // Freed as 2, 0, 1.
    held.rotate_right(1);
    for (owner, held) in held {
        context.free_slot(owner, held)?;
        context.pass(1);
    }
    let mut slots = Vec::new();
    for owner in 4..=7 {
        slots.push(context.slot(claim(owner)?)?.slot);
    }
    ensure!(slots == [3, 2, 0, 1], "the never used one and then the freed ones came as {slots:?}");
    Ok(())
}

fn take_over(context: &Context<'_>) -> Outcome<()> {
    let claim =
        |owner: u64, identity: &str| Ok::<_, String>(context.slot_claim(owner)?.with_identity(identity));
    let first = context.slot(claim(1, "pod-0")?)?;
    let other = context.slot(claim(2, "pod-0")?)?;
    ensure!(other.slot != first.slot, "an identity alone took a live slot over");
    context.free_slot(2, other)?;
    context.pass(3);
    let gone = Gone { slot: first.slot, token: first.token };
    let stranger = context.slot(claim(3, "pod-1")?.with_gone(gone))?;
    ensure!(stranger.slot != first.slot, "a stranger took over by a proof about somebody else");
    let stale = lease_machines::FencingToken::new(first.token.value() - 1).ok_or("no older token")?;
    let wrong = context.slot(claim(4, "pod-0")?.with_gone(Gone { token: stale, ..gone }))?;
    ensure!(wrong.slot != first.slot, "a proof about another token took a live slot over");
    let proven = context.slot(claim(5, "pod-0")?.with_gone(gone))?;
    ensure!(proven.slot == first.slot && proven.token > first.token, "with a proof: {proven:?}");
    let lost = super::not_renewed(context.renew_slot(&context.slot_ref(1, first)?)?)?;
    ensure!(lost.reason == lease_machines::Rejection::WrongOwner, "whose slot was taken over: {lost:?}");
    let only = context.slot(claim(6, "pod-1")?.with_exclusive_identity())?;
    ensure!(only.slot == stranger.slot && only.token > stranger.token, "an exclusive identity: {only:?}");
    Ok(())
}

fn revoked(context: &Context<'_>) -> Outcome<()> {
    let claim = |owner: u64| {
        let only = SlotRange::new(0, 0).ok_or("no range")?;
        Ok::<_, String>(context.slot_claim(owner)?.with_identity("a").with_range(only))
    };
    let held = context.slot(claim(1)?)?;
    context.pass(4);
    let burnt =
        expect!(context.revoke_slot(0, Some(held.token))?, Revoked::Burnt(token) => token, "a revoke");
    ensure!(burnt > held.token, "burnt {burnt} after {}", held.token);
    let lost = super::not_renewed(context.renew_slot(&context.slot_ref(1, held)?)?)?;
    ensure!(lost.reason == lease_machines::Rejection::Vacant, "its holder is told {lost:?}");
    // To its own identity as well, and to an exclusive one.
    for (owner, claim) in [(2, claim(2)?), (3, claim(3)?.with_exclusive_identity())] {
        let why = context.no_slot(claim)?;
        let next =
            expect!(why, Unclaimed::Exhausted { next_chance: Some(next) } => next, "while it is closed");
        ensure!(context.roughly(next, context.units(6)), "owner {owner}: the next chance is in {next:?}");
    }
    context.pass(7);
    let why = context.no_slot(claim(4)?.with_identity("b").with_cool_down(context.units(8)))?;
    ensure!(matches!(why, Unclaimed::Exhausted { .. }), "it does not rest: {why:?}");
    let next = context.slot(claim(5)?)?;
    ensure!(next.token > burnt, "token {} after {burnt} was burnt", next.token);
    let stale = context.revoke_slot(0, Some(held.token))?;
    let why = expect!(stale, Revoked::Rejected(why) => why.reason, "a revoke of another's lease");
    ensure!(why == lease_machines::Rejection::StaleToken, "a revoke of an old lease: {why:?}");
    Ok(())
}

fn range(context: &Context<'_>) -> Outcome<()> {
    let claim = |owner: u64, first: u16, last: u16| {
        let range = SlotRange::new(first, last).ok_or("no range")?;
        Ok::<_, String>(context.slot_claim(owner)?.with_range(range))
    };
    ensure!(context.slot(claim(1, 2, 9)?)?.slot == 2, "not the first of its range");
    ensure!(context.slot(claim(2, 2, 9)?)?.slot == 3, "not the second of its range");
    let why = context.no_slot(claim(3, 2, 3)?)?;
    ensure!(matches!(why, Unclaimed::Exhausted { .. }), "its range is full: {why:?}");
    let why = context.no_slot(claim(4, 4, 9)?)?;
    ensure!(why == Unclaimed::NoSuchSlot, "a range beyond the pool: {why:?}");
    ensure!(context.slot(claim(5, 1, 1)?)?.slot == 1, "not the only one of its range");
    Ok(())
}

fn shared(context: &Context<'_>) -> Outcome<()> {
    let Some(other) = context.fixture.another() else { return Err("no second connection".into()) };
    let mut seen = BTreeSet::new();
    for owner in 1..=4 {
        let claim = context.slot_claim(owner)?;
        let answer = if owner % 2 == 0 {
            block_on(other.claim_slot(claim))
        } else {
            context.claim_slot(claim).map(Ok)?
        };
        let held = super::held(answer.map_err(told)?)?;
        ensure!(seen.insert(held.slot), "slot {} twice", held.slot);
    }
    let looked = block_on(other.slots(context.pool()?)).map_err(told)?;
    ensure!(looked.holders() == 4, "the other connection sees {} holders", looked.holders());
    Ok(())
}

/// Claims until it gets a slot, however busy the others are.
pub(super) fn insist(store: &Arc<dyn Store>, claim: &crate::PoolClaim) -> Outcome<Claimed> {
    for _ in 0..1_000 {
        match block_on(store.claim_slot(claim.clone())).map_err(told)? {
            Claimed::Rejected(Unclaimed::Busy) => thread::yield_now(),
            answer => return Ok(answer),
        }
    }
    Err("busy a thousand times".to_owned())
}

fn at_once(context: &Context<'_>) -> Outcome<()> {
    for round in 0..4_u64 {
        let pool = super::super::context::name(&format!("round-{round}"))?;
        let answers: Vec<Outcome<Claimed>> = thread::scope(|scope| {
            let clients: Vec<_> = (1..=16_u64)
                .map(|owner| {
                    let store = match context.fixture.another() {
                        Some(other) if owner % 2 == 1 => other,
                        _ => context.store(),
                    };
                    let pool = pool.clone();
                    let ttl = context.units(100);
                    scope.spawn(move || {
                        insist(&store, &crate::PoolClaim::new(pool, 16, OwnerId::new(owner), ttl))
                    })
                })
                .collect();
            clients
                .into_iter()
                .map(|client| client.join().map_err(|_| "a client panicked".to_owned())?)
                .collect()
        });
        let mut seen = BTreeSet::new();
        for answer in answers {
            let held = super::held(answer?)?;
            ensure!(seen.insert(held.slot), "round {round}: slot {} twice", held.slot);
        }
    }
    Ok(())
}
