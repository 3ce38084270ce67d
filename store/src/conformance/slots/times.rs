//! ID time, looking, history and epochs.

use std::time::Duration;

use lease_machines::{OwnerId, SlotRange, Window};

use super::super::context::{Context, Outcome, told};
use super::super::subject::Need;
use super::super::{Case, block_on, case};
use super::{kind, renewed};
use crate::{Claimed, ErrorKind, HoldOutcome, Opening, PoolClaim, Released, SlotLease, Unclaimed, slot_name};

pub(super) const CASES: &[Case] = &[
    case("ID time is reserved above all that others may have used", Need::Slots, reserved),
    case("a renewal reserves on from where the grant began", Need::Slots, renewal),
    case("a release gives back what was not used, and no more", Need::Slots, given_back),
    case("a claim for no more time than is reserved already gets another slot", Need::Slots, no_time),
    case("a pool is shown with its holders, its free slots and their marks", Need::Slots, look),
    case("the history of a slot says who held it", Need::SlotsHistory, history),
    case("a new epoch loses every slot", Need::Slots, epoch),
    case("a new epoch gives out no stamp of the old one", Need::SlotsDriven, epoch_stamps),
];

/// A claim of the first slot that reserves ID time.
fn claim(context: &Context<'_>, owner: u64) -> Outcome<PoolClaim> {
    let first = SlotRange::new(0, 0).ok_or("no range")?;
    Ok(context.slot_claim(owner)?.with_range(first).with_id_time())
}

fn window(lease: SlotLease) -> Outcome<Window> {
    let window = lease.window.ok_or_else(|| format!("no ID time was reserved: {lease:?}"))?;
    ensure!(window.after < window.until, "an empty window: {window:?}");
    Ok(window)
}

/// Whether the time is reserved up to the store's clock and so many units.
fn ends(context: &Context<'_>, lease: SlotLease, units: u32) -> Outcome<()> {
    let until = window(lease)?.until;
    let expected = lease.wall + context.units(units);
    ensure!(until == expected, "reserved up to {until:?}, not {expected:?}");
    Ok(())
}

fn reserved(context: &Context<'_>) -> Outcome<()> {
    let mut last = Duration::ZERO;
    for owner in 1..=4 {
        let held = context.slot(claim(context, owner)?)?;
        let window = window(held)?;
        ends(context, held, 10)?;
        ensure!(
            window.after >= last,
            "stamps up to {last:?} were given out, and again after {:?}",
            window.after
        );
        let seen = context.slots()?;
        let off = seen.wall.abs_diff(held.wall);
        ensure!(off <= context.units(1), "the clock of the answer is off by {off:?}");
        last = window.until;
        if owner % 2 == 0 {
            context.free_slot(owner, held)?;
        }
        context.pass(12);
    }
    Ok(())
}

fn renewal(context: &Context<'_>) -> Outcome<()> {
    let first = context.slot(claim(context, 1)?)?;
    context.pass(4);
    let lease = context.slot_ref(1, first)?;
    // One that reserves nothing leaves the window as it is.
    let plain = renewed(context.renew_slot(&lease)?)?;
    ensure!(plain.window.is_none(), "reserved {:?} without being asked", plain.window);
    let longer =
        block_on(context.store().renew_slot(lease.clone(), context.units(20), true)).map_err(told)?;
    let longer = renewed(longer)?;
    ensure!(window(longer)?.after == window(first)?.after, "renewed to {:?}", longer.window);
    ends(context, longer, 20)?;
    let shorter = block_on(context.store().renew_slot(lease, context.units(10), true)).map_err(told)?;
    let shorter = renewed(shorter)?;
    ensure!(window(shorter)? == window(longer)?, "a mark went down to {:?}", shorter.window);
    Ok(())
}

fn given_back(context: &Context<'_>) -> Outcome<()> {
    let release = |owner: u64, held: SlotLease, last_used: Duration| {
        let lease = context.slot_ref(owner, held)?;
        let answer = block_on(context.store().release_slot(lease, Some(last_used))).map_err(told)?;
        ensure!(answer == Released::Released, "not released: {answer:?}");
        Ok::<_, String>(())
    };
    let mark =
        || context.slots()?.slots.first().map(|slot| slot.mark).ok_or("the slot is not seen".to_owned());
    let micro = Duration::from_micros(1);
    let first = context.slot(claim(context, 1)?)?;
    let used = first.wall + context.units(1);
    release(1, first, used)?;
    ensure!(mark()? == used, "given back to {:?}, not to {used:?}", mark()?);
    context.pass(2);
    let second = context.slot(claim(context, 2)?)?;
    ensure!(window(second)?.after == used, "the next window begins at {:?}", second.window);
    // Nothing below its own window, whatever it says.
    release(2, second, used - micro)?;
    ensure!(mark()? == used, "gone down to {:?}", mark()?);
    context.pass(2);
    // What was used is used, whatever had been reserved, and a fraction of a microsecond is a whole one.
    let third = context.slot(claim(context, 3)?)?;
    let beyond = window(third)?.until + micro;
    release(3, third, beyond - Duration::from_nanos(1))?;
    ensure!(mark()? == beyond, "raised to {:?}, not to {beyond:?}", mark()?);
    Ok(())
}

fn no_time(context: &Context<'_>) -> Outcome<()> {
    let first = context.slot(claim(context, 1)?)?;
    context.free_slot(1, first)?;
    context.pass(3);
    let short = PoolClaim { ttl: context.units(5), ..claim(context, 2)? };
    let why = context.no_slot(short.clone())?;
    ensure!(
        why == Unclaimed::Exhausted { next_chance: None },
        "up to {:?} is reserved: {why:?}",
        first.window
    );
    let elsewhere = context.slot(short.with_attempt(2).with_range(SlotRange::ALL))?;
    ensure!(elsewhere.slot == 1, "granted slot {}", elsewhere.slot);
    // Who reserves nothing may have it.
    let plain = PoolClaim { id_time: false, ttl: context.units(5), ..claim(context, 3)? };
    ensure!(context.slot(plain)?.slot == 0, "a claim without ID time got another slot");
    Ok(())
}

fn look(context: &Context<'_>) -> Outcome<()> {
    let unseen = context.slots()?;
    ensure!(unseen.size == 0 && unseen.slots.is_empty(), "before its first claim: {unseen:?}");
    let named = claim(context, 1)?.with_identity("worker-a").with_label("host 7");
    let first = context.slot(named)?;
    let second = context.slot_of(2)?;
    context.pass(1);
    context.free_slot(2, second)?;
    context.pass(1);
    let seen = context.slots()?;
    ensure!(seen.size == 4 && seen.slots.len() == 2 && seen.holders() == 1, "seen as {seen:?}");
    ensure!(seen.epoch == first.epoch, "of epoch {}", seen.epoch);
    let [held, free] = &seen.slots[..] else { return Err("not two slots".into()) };
    let who = held.occupant.as_ref().ok_or("nobody holds the first")?;
    ensure!((held.slot, who.owner, who.token) == (0, OwnerId::new(1), first.token), "held as {held:?}");
    ensure!(held.last_issued == Some(first.token), "last issued as {held:?}");
    ensure!(who.label.as_deref() == Some("host 7"), "labelled {:?}", who.label);
    ensure!(held.identity.as_deref() == Some("worker-a"), "known as {:?}", held.identity);
    ensure!(context.roughly(who.remaining, context.units(8)), "{:?} are left", who.remaining);
    ensure!(context.roughly(context.units(10), who.held_for + who.remaining), "held for {:?}", who.held_for);
    ensure!(held.mark == window(first)?.until, "marked {:?}", held.mark);
    let at = |units: i64| -> Outcome<std::time::SystemTime> {
        let off = context.units(u32::try_from(units.unsigned_abs()).unwrap_or(0));
        let wall = std::time::SystemTime::UNIX_EPOCH + seen.wall;
        Ok(if units < 0 { wall - off } else { wall + off })
    };
    let near = |found: Option<std::time::SystemTime>, expected: std::time::SystemTime| {
        let off = found.map(|found| found.duration_since(expected).unwrap_or_else(|early| early.duration()));
        off.is_some_and(|off| off < context.units(1))
    };
    ensure!(near(held.free_from, at(8)?), "free from {:?}, at {:?}", held.free_from, seen.wall);
    ensure!(free.slot == 1 && free.occupant.is_none() && free.identity.is_none(), "free as {free:?}");
    ensure!(near(free.free_from, at(-1)?), "free from {:?}, at {:?}", free.free_from, seen.wall);
    ensure!(free.mark.is_zero() && free.last_issued == Some(second.token), "free as {free:?}");
    Ok(())
}

fn history(context: &Context<'_>) -> Outcome<()> {
    let first = context.slot(claim(context, 1)?.with_identity("a").with_label("one"))?;
    let _ = renewed(context.renew_slot(&context.slot_ref(1, first)?)?)?;
    context.free_slot(1, first)?;
    // Later: all of its time is reserved up to then.
    context.pass(1);
    let second = context.slot(claim(context, 2)?.with_identity("a"))?;
    context.pass(12);
    let third = context.slot(claim(context, 3)?.with_identity("a"))?;
    let other = context.slot_of(4)?;
    let name = slot_name(&context.pool()?, 0).map_err(told)?;
    let found = block_on(context.store().history(name.clone(), 10)).map_err(told)?;
    let short: Vec<_> = found.iter().map(|hold| (hold.token, hold.owner.value(), hold.outcome)).collect();
    let expected = [
        (third.token, 3, HoldOutcome::Held),
        (second.token, 2, HoldOutcome::Expired),
        (first.token, 1, HoldOutcome::Released),
    ];
    ensure!(short == expected, "held by {short:?}, expected {expected:?}");
    let last = found.last().ok_or("no history")?;
    ensure!(last.renewals == 1, "renewed {} times", last.renewals);
    ensure!(
        (last.label.as_deref(), last.identity.as_deref()) == (Some("one"), Some("a")),
        "held as {last:?}"
    );
    let latest = block_on(context.store().history(name, 1)).map_err(told)?;
    ensure!(latest.len() == 1 && latest.first().map(|hold| hold.token) == Some(third.token), "{latest:?}");
    let name = slot_name(&context.pool()?, other.slot).map_err(told)?;
    let found = block_on(context.store().history(name, 10)).map_err(told)?;
    ensure!(found.len() == 1, "of another slot: {found:?}");
    Ok(())
}

fn epoch(context: &Context<'_>) -> Outcome<()> {
    let store = context.store();
    let first = context.slot(context.slot_claim(1)?.with_identity("a"))?;
    let lease = context.slot_ref(1, first)?;
    // Its holder may be at work: nobody else gets it, and nobody gets any other.
    let waited = block_on(store.open_epoch(Opening::new(first.epoch))).map_err(told)?;
    let lost = ErrorKind::NewEpoch { current: waited };
    let unnamed = crate::SlotRef { epoch: None, ..lease.clone() };
    for lease in [&lease, &unnamed] {
        let renewal = kind(block_on(store.renew_slot(lease.clone(), context.units(10), false)))?;
        ensure!(renewal == lost, "a renewal of {lease:?} was answered {renewal:?}");
        let release = kind(block_on(store.release_slot(lease.clone(), None)))?;
        ensure!(release == lost, "a release of {lease:?} was answered {release:?}");
    }
    let held_back = kind(block_on(store.claim_slot(context.slot_claim(3)?)))?;
    ensure!(held_back == ErrorKind::Busy, "a claim beside old holders was answered {held_back:?}");
    let opening = Opening::new(waited).with_dead_holders();
    let current = block_on(store.open_epoch(opening)).map_err(told)?;
    let lost = ErrorKind::NewEpoch { current };
    let renewal = kind(block_on(store.renew_slot(lease.clone(), context.units(10), false)))?;
    ensure!(renewal == lost, "a renewal in a new epoch was answered {renewal:?}");
    let release = kind(block_on(store.release_slot(lease.clone(), None)))?;
    ensure!(release == lost, "a release in a new epoch was answered {release:?}");
    let renewal = kind(block_on(store.renew_slot(unnamed, context.units(10), false)))?;
    ensure!(renewal == lost, "a renewal without an epoch was answered {renewal:?}");
    let claim = context.slot_claim(2)?.with_epoch(Some(first.epoch));
    let old = kind(block_on(store.claim_slot(claim.clone())))?;
    ensure!(old == lost, "a claim for the old epoch was answered {old:?}");
    let echo = kind(block_on(store.claim_slot(context.slot_claim(1)?)))?;
    ensure!(echo == ErrorKind::Superseded, "an echo of the old epoch was answered {echo:?}");
    let next = context.slot(claim.with_epoch(Some(current)).with_identity("a"))?;
    ensure!((next.slot, next.epoch) == (first.slot, current), "granted {next:?}");
    ensure!(next.token > first.token, "token {} after {}", next.token, first.token);
    Ok(())
}

fn epoch_stamps(context: &Context<'_>) -> Outcome<()> {
    let store = context.store();
    let max = store.capabilities().max_ttl;
    let first = context.slot(claim(context, 1)?)?;
    let opening = Opening::new(first.epoch).with_dead_holders();
    let _ = block_on(store.open_epoch(opening)).map_err(told)?;
    let opened = context.slots()?.wall;
    // Of a slot that this history knows, and of one that only the lost one may have known.
    for (owner, slot) in [(2, 0), (3, 3)] {
        let range = SlotRange::new(slot, slot).ok_or("no range")?;
        let claim = claim(context, owner)?.with_range(range).with_cool_down(Duration::ZERO);
        let why = context.no_slot(claim)?;
        ensure!(why == Unclaimed::Exhausted { next_chance: None }, "ID time is given out at once: {why:?}");
    }
    context.fixture.pass(max);
    for (owner, slot) in [(4, 0), (5, 3)] {
        let range = SlotRange::new(slot, slot).ok_or("no range")?;
        let answer = context.claim_slot(claim(context, owner)?.with_range(range))?;
        let lease = expect!(answer, Claimed::Granted(lease) => lease, "expected a slot");
        let window = window(lease)?;
        ensure!(window.after >= opened + max, "a window from {:?} on, opened at {opened:?}", window.after);
    }
    Ok(())
}
