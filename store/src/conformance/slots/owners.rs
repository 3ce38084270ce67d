//! Owners and attempts: a doubled, delayed or repeated request takes no second slot.

use lease_machines::{FencingToken, OwnerId, Rejection, SlotRange};

use super::super::context::{Context, Outcome, told};
use super::super::subject::Need;
use super::super::{Case, block_on, case};
use super::{held, kind, not_renewed, renewed};
use crate::{Claimed, ErrorKind, Fault, FaultStore, Released, SlotRef, Store, Unclaimed, Undecided};

pub(super) const CASES: &[Case] = &[
    case("only the owner of a slot, under its token, renews and releases it", Need::Slots, conditional),
    case("an echo of a claim is answered with its slot", Need::Slots, echo),
    case("an echo of a claim whose slot is lost is superseded", Need::Slots, superseded),
    case("a lost answer to a claim is asked for again with reclaim", Need::Slots, asked_again),
    case("an owner holds one slot of a pool", Need::Slots, one),
    case("a second release of a slot is already released", Need::Slots, released_twice),
    case("withdraw gives a slot back without its number, once for all", Need::Slots, withdraw),
    case("a doubled claim takes one slot", Need::Slots, doubled),
    case("a claim that comes after its owner withdrew comes to nothing", Need::Slots, ghost),
    case("a release of a slot that comes late frees nobody else's", Need::Slots, late_release),
    case("8 doubles of one claim at once take one slot", Need::Slots, doubles_at_once),
];

fn conditional(context: &Context<'_>) -> Outcome<()> {
    let mine = context.slot_of(1)?;
    let right = context.slot_ref(1, mine)?;
    let older = FencingToken::new(mine.token.value() - 1).ok_or("no older token")?;
    // Without an epoch, so that a token never issued is only a wrong one.
    let ahead = FencingToken::new(mine.token.value() + 1).ok_or("no newer token")?;
    let free = SlotRef { slot: 3, epoch: None, ..right.clone() };
    let beyond = SlotRef { slot: 4, epoch: None, ..right.clone() };
    let nowhere = SlotRef { pool: super::super::context::name("other")?, epoch: None, ..right.clone() };
    for (wrong, reason) in [
        (SlotRef { owner: OwnerId::new(2), ..right.clone() }, Rejection::WrongOwner),
        (SlotRef { token: older, ..right.clone() }, Rejection::StaleToken),
        (SlotRef { token: ahead, epoch: None, ..right.clone() }, Rejection::StaleToken),
        (free, Rejection::Vacant),
        (beyond, Rejection::Vacant),
        (nowhere, Rejection::Vacant),
    ] {
        let renewal = not_renewed(context.renew_slot(&wrong)?)?;
        ensure!(renewal.reason == reason, "renewed as {wrong:?}: {:?}, expected {reason:?}", renewal.reason);
        let release = super::super::context::not_released(context.release_slot(&wrong)?)?;
        ensure!(release.reason == reason, "released as {wrong:?}: {:?}, expected {reason:?}", release.reason);
    }
    context.pass(4);
    let longer = renewed(context.renew_slot(&right)?)?;
    ensure!(longer.token == mine.token && longer.slot == mine.slot, "renewed as {longer:?}");
    ensure!(context.roughly(longer.ttl, context.units(10)), "renewed for {:?}", longer.ttl);
    context.pass(11);
    let late = not_renewed(context.renew_slot(&right)?)?;
    ensure!(super::super::context::over(&*context.store(), late.reason), "a late renewal: {late:?}");
    let late = super::super::context::not_released(context.release_slot(&right)?)?;
    ensure!(super::super::context::over(&*context.store(), late.reason), "a late release: {late:?}");
    Ok(())
}

fn echo(context: &Context<'_>) -> Outcome<()> {
    let claim = context.slot_claim(1)?.with_id_time();
    let first = context.slot(claim.clone())?;
    context.pass(4);
    for again in [false, true] {
        let store = context.store();
        let answer = if again { store.reclaim_slot(claim.clone()) } else { store.claim_slot(claim.clone()) };
        let echo = held(block_on(answer).map_err(told)?)?;
        ensure!((echo.slot, echo.token) == (first.slot, first.token), "an echo was granted {echo:?}");
        ensure!(context.roughly(echo.ttl, context.units(6)), "an echo was told {:?}", echo.ttl);
        ensure!(echo.window == first.window, "an echo was told of {:?}, not {:?}", echo.window, first.window);
    }
    ensure!(context.slots()?.holders() == 1, "{} slots are held", context.slots()?.holders());
    Ok(())
}

fn superseded(context: &Context<'_>) -> Outcome<()> {
    let first = context.slot_of(1)?;
    context.free_slot(1, first)?;
    let expiring = context.slot_of(2)?;
    context.pass(11);
    let _ = expiring;
    for owner in [1, 2] {
        for again in [false, true] {
            let (store, claim) = (context.store(), context.slot_claim(owner)?);
            let answer = if again { store.reclaim_slot(claim) } else { store.claim_slot(claim) };
            let kind = kind(block_on(answer))?;
            ensure!(kind == ErrorKind::Superseded, "a late double of owner {owner} was answered {kind:?}");
        }
    }
    ensure!(context.slots()?.holders() == 0, "a late double holds a slot");
    Ok(())
}

fn asked_again(context: &Context<'_>) -> Outcome<()> {
    let network = FaultStore::scripted(context.store(), [Fault::DropReply]);
    let lost = block_on(network.claim_slot(context.slot_claim(1)?)).map_err(|error| error.undecided());
    ensure!(lost == Err(Undecided::Unknown), "the wrapper let it through: {lost:?}");
    let before = context.slots()?;
    let before = before.slots.first().and_then(|slot| slot.last_issued).ok_or("nothing was granted")?;
    let again = held(context.reclaim_slot(context.slot_claim(1)?.with_attempt(2))?)?;
    ensure!(again.slot == 0 && again.token > before, "{again:?} does not replace token {before} of slot 0");
    // The first request, arriving late, does not undo that.
    let late = context.slot_of(1)?;
    ensure!(
        (late.slot, late.token) == (again.slot, again.token),
        "a late first request was answered {late:?}"
    );
    ensure!(context.slots()?.holders() == 1, "it holds several");
    // Of nothing that it lost, it is a claim.
    let fresh = held(context.reclaim_slot(context.slot_claim(2)?)?)?;
    ensure!(fresh.slot == 1, "a stranger's reclaim got slot {}", fresh.slot);
    Ok(())
}

fn one(context: &Context<'_>) -> Outcome<()> {
    let first = context.slot_of(1)?;
    let why = context.no_slot(context.slot_claim(1)?.with_attempt(2))?;
    ensure!(why == Unclaimed::Invalid(Rejection::Occupied), "a second claim: {why:?}");
    let elsewhere = SlotRange::new(2, 3).ok_or("no range")?;
    let answer = context.reclaim_slot(context.slot_claim(1)?.with_attempt(3).with_range(elsewhere))?;
    let why = Claimed::Rejected(Unclaimed::Invalid(Rejection::Occupied));
    ensure!(answer == why, "a reclaim in another range: {answer:?}");
    let _ = renewed(context.renew_slot(&context.slot_ref(1, first)?)?)?;
    // Of another pool it may.
    let mut other = context.slot_claim(1)?;
    other.pool = super::super::context::name("other")?;
    let _ = context.slot(other)?;
    // After its end, the next attempt is a claim like any other.
    context.pass(11);
    let _ = context.slot_of(2)?;
    let next = held(context.reclaim_slot(context.slot_claim(1)?.with_attempt(4).with_range(elsewhere))?)?;
    ensure!(next.slot >= 2, "granted slot {}", next.slot);
    let late = context.slot(context.slot_claim(1)?.with_attempt(1))?;
    ensure!(late.token == next.token && late.slot == next.slot, "an old attempt was answered {late:?}");
    Ok(())
}

fn released_twice(context: &Context<'_>) -> Outcome<()> {
    let first = context.slot_of(1)?;
    context.free_slot(1, first)?;
    let lease = context.slot_ref(1, first)?;
    let again = context.release_slot(&lease)?;
    ensure!(again == Released::AlreadyReleased, "the second release was answered {again:?}");
    let claim = context.slot_claim(2)?.with_cool_down(std::time::Duration::ZERO);
    let only = SlotRange::new(first.slot, first.slot).ok_or("no range")?;
    let next = context.slot(claim.with_range(only))?;
    let again = context.release_slot(&lease)?;
    ensure!(again == Released::AlreadyReleased, "the third was answered {again:?}");
    let _ = renewed(context.renew_slot(&context.slot_ref(2, next)?)?)?;
    Ok(())
}

fn withdraw(context: &Context<'_>) -> Outcome<()> {
    let first = context.slot_of(1)?;
    let other = context.slot_of(2)?;
    let answer = context.withdraw_slot(1)?;
    ensure!(answer == Released::Released, "withdrawn: {answer:?}");
    for claim in [context.slot_claim(1)?, context.slot_claim(1)?.with_attempt(9)] {
        let kind = kind(block_on(context.store().reclaim_slot(claim)))?;
        ensure!(kind == ErrorKind::Superseded, "a withdrawn owner's request was answered {kind:?}");
    }
    let again = context.withdraw_slot(1)?;
    ensure!(again == Released::AlreadyReleased, "withdrawn again: {again:?}");
    let lost = not_renewed(context.renew_slot(&context.slot_ref(1, first)?)?)?;
    ensure!(lost.reason == Rejection::Vacant, "its renewal: {lost:?}");
    let _ = renewed(context.renew_slot(&context.slot_ref(2, other)?)?)?;
    // Before the request that it withdraws has come, and before there is a pool.
    let early = super::super::context::name("early")?;
    let none = block_on(context.store().withdraw_slot(early.clone(), OwnerId::new(3))).map_err(told)?;
    let why = super::super::context::not_released(none)?;
    ensure!(why.reason == Rejection::Vacant, "nothing was there to withdraw: {why:?}");
    let mut claim = context.slot_claim(3)?;
    claim.pool = early;
    let kind = kind(block_on(context.store().claim_slot(claim)))?;
    ensure!(kind == ErrorKind::Superseded, "the request came through: {kind:?}");
    Ok(())
}

fn doubled(context: &Context<'_>) -> Outcome<()> {
    let network = FaultStore::scripted(context.store(), [Fault::Double, Fault::Double]);
    let first = held(block_on(network.claim_slot(context.slot_claim(1)?)).map_err(told)?)?;
    let claim = context.slot_claim(1)?.with_attempt(2);
    let again = held(block_on(network.reclaim_slot(claim)).map_err(told)?)?;
    ensure!(again.slot == first.slot && again.token > first.token, "{again:?} after {first:?}");
    let _ = renewed(context.renew_slot(&context.slot_ref(1, again)?)?)?;
    ensure!(context.slots()?.holders() == 1, "{} slots are held", context.slots()?.holders());
    Ok(())
}

fn ghost(context: &Context<'_>) -> Outcome<()> {
    let network = FaultStore::scripted(context.store(), [Fault::Late]);
    let lost = block_on(network.claim_slot(context.slot_claim(1)?)).map_err(|error| error.undecided());
    ensure!(lost == Err(Undecided::Unknown), "the wrapper let it through: {lost:?}");
    let _ = context.withdraw_slot(1)?;
    ensure!(block_on(network.deliver_late()) == 1, "nothing was late");
    ensure!(context.slots()?.holders() == 0, "the ghost holds a slot");
    Ok(())
}

fn late_release(context: &Context<'_>) -> Outcome<()> {
    let network = FaultStore::scripted(context.store(), [Fault::Late, Fault::Late]);
    let first = context.slot(context.slot_claim(1)?.with_identity("a"))?;
    let lease = context.slot_ref(1, first)?;
    let lost = block_on(network.release_slot(lease.clone(), None)).map_err(|error| error.undecided());
    ensure!(lost == Err(Undecided::Unknown), "the wrapper let it through: {lost:?}");
    let lost =
        block_on(network.renew_slot(lease, context.units(10), false)).map_err(|error| error.undecided());
    ensure!(lost == Err(Undecided::Unknown), "the wrapper let it through: {lost:?}");
    context.pass(11);
    let next = context.slot(context.slot_claim(2)?.with_identity("a"))?;
    ensure!(next.slot == first.slot, "the same identity got slot {}", next.slot);
    let _ = block_on(network.deliver_late());
    let _ = renewed(context.renew_slot(&context.slot_ref(2, next)?)?)?;
    Ok(())
}

fn doubles_at_once(context: &Context<'_>) -> Outcome<()> {
    for owner in 1..=4_u64 {
        let claim = context.slot_claim(owner)?;
        let answers: Vec<Outcome<Claimed>> = std::thread::scope(|scope| {
            let doubles: Vec<_> = (0..8)
                .map(|double| {
                    let store = match context.fixture.another() {
                        Some(other) if double % 2 == 1 => other,
                        _ => context.store(),
                    };
                    let claim = claim.clone();
                    scope.spawn(move || super::claiming::insist(&store, &claim))
                })
                .collect();
            doubles
                .into_iter()
                .map(|double| double.join().map_err(|_| "a double panicked".to_owned())?)
                .collect()
        });
        let mut seen = Vec::new();
        for answer in answers {
            let held = held(answer?)?;
            seen.push((held.slot, held.token));
        }
        seen.dedup();
        ensure!(seen.len() == 1, "eight doubles of one claim were answered {seen:?}");
        let holders = context.slots()?.holders();
        ensure!(u64::try_from(holders) == Ok(owner), "{holders} slots are held by {owner} owners");
    }
    Ok(())
}
