//! How many slots a pool has, and what is no request at all.

use std::time::Duration;

use lease_machines::{OwnerId, Rejection};

use super::super::context::{Context, Outcome, grant, name, told};
use super::super::subject::Need;
use super::super::{Case, block_on, case};
use super::{kind, renewed};
use crate::{ErrorKind, Opening, PoolClaim, Resized, ResourceName, SlotRef, Unclaimed, slot_name};

pub(super) const CASES: &[Case] = &[
    case("a claim that names more slots than the pool has is refused", Need::Slots, other_size),
    case("a pool grows, and shrinks where nobody holds what is cut off", Need::Slots, resize),
    case("a slot that was cut off goes on with its tokens and its mark", Need::Slots, back_again),
    case("the largest pool has 65,536 slots", Need::Slots, largest),
    case("every pool is listed, in byte order, and nothing else", Need::Slots, listed),
    case("a pool and a lease of one name are two things", Need::Slots, same_name),
    case("requests for slots that are out of range are refused", Need::Slots, out_of_range),
];

fn other_size(context: &Context<'_>) -> Outcome<()> {
    let first = context.slot_of(1)?;
    let claim = |owner: u64, size: u32| {
        Ok::<_, String>(PoolClaim::new(context.pool()?, size, OwnerId::new(owner), context.units(10)))
    };
    let more = kind(block_on(context.store().claim_slot(claim(2, 5)?)))?;
    ensure!(more == ErrorKind::PoolSize { size: 4 }, "a claim for one of five slots was answered {more:?}");
    let error = expect!(block_on(context.store().claim_slot(claim(2, 5)?)), Err(error) => error, "refused");
    for part in ["ids", "4 slots", "names 5"] {
        ensure!(error.to_string().contains(part), "{error} does not say {part:?}");
    }
    ensure!(error.undecided() == crate::Undecided::Refused, "{error:?} is to be tried again");
    ensure!(context.slots()?.size == 4, "the pool has {} slots now", context.slots()?.size);
    // Fewer are fewer for this claimant alone.
    let second = context.slot(claim(2, 2)?)?;
    ensure!((first.slot, second.slot) == (0, 1), "granted {} and {}", first.slot, second.slot);
    let why = context.no_slot(claim(3, 2)?)?;
    ensure!(matches!(why, Unclaimed::Exhausted { .. }), "a third of two: {why:?}");
    ensure!(context.slot(claim(4, 4)?)?.slot == 2, "a claim for one of four");
    Ok(())
}

fn resize(context: &Context<'_>) -> Outcome<()> {
    let set = |size: u32| block_on(context.store().resize_pool(context.pool()?, size)).map_err(told);
    // A pool can be made before its first claim.
    ensure!(set(2)? == Resized::Resized, "not made");
    let more = kind(block_on(context.store().claim_slot(context.slot_claim(1)?)))?;
    ensure!(more == ErrorKind::PoolSize { size: 2 }, "a claim for one of four slots was answered {more:?}");
    ensure!(set(4)? == Resized::Resized && set(4)? == Resized::Resized, "not grown");
    for owner in 1..=3 {
        let held = context.slot_of(owner)?;
        ensure!(u64::from(held.slot) == owner - 1, "owner {owner} got slot {}", held.slot);
    }
    ensure!(set(3)? == Resized::Resized, "nobody holds the fourth");
    let answer = set(1)?;
    let left = expect!(answer, Resized::InUse { slot: 2, remaining } => remaining, "the third is held");
    ensure!(context.roughly(left, context.units(10)), "it is held for {left:?}");
    ensure!(context.slots()?.size == 3, "cut off all the same");
    let third = context.slots()?.slots.pop().and_then(|slot| slot.occupant).ok_or("the third is not seen")?;
    let third = SlotRef::new(context.pool()?, 2, OwnerId::new(3), third.token, None);
    ensure!(context.release_slot(&third)? == crate::Released::Released, "the third is not released");
    ensure!(set(2)? == Resized::Resized, "the third is free");
    let gone = super::not_renewed(context.renew_slot(&third)?)?;
    ensure!(gone.reason == Rejection::Vacant, "a slot beyond the pool: {gone:?}");
    let double = kind(block_on(context.store().claim_slot(context.slot_claim(3)?)))?;
    ensure!(
        double == ErrorKind::Superseded,
        "a late double of who had what was cut off was answered {double:?}"
    );
    let gone = super::super::context::not_released(context.withdraw_slot(3)?)?;
    ensure!(gone.reason == Rejection::Vacant, "whose slot was cut off has none to withdraw from: {gone:?}");
    let answer = context.revoke_slot(1, None)?;
    ensure!(matches!(answer, crate::Revoked::Burnt(_)), "the second is not revoked: {answer:?}");
    let answer = set(1)?;
    ensure!(
        matches!(answer, Resized::InUse { slot: 1, .. }),
        "whose lease was revoked may still act: {answer:?}"
    );
    context.pass(11);
    ensure!(set(1)? == Resized::Resized, "the second is free by now");
    Ok(())
}

fn back_again(context: &Context<'_>) -> Outcome<()> {
    let set = |size: u32| block_on(context.store().resize_pool(context.pool()?, size)).map_err(told);
    let claim = |owner: u64, size: u32| {
        let claim = PoolClaim::new(context.pool()?, size, OwnerId::new(owner), context.units(10));
        let last = lease_machines::SlotRange::new(1, 1).ok_or("no range")?;
        Ok::<_, String>(claim.with_range(last).with_cool_down(Duration::ZERO).with_id_time())
    };
    let before = context.slot(claim(1, 2)?)?;
    context.free_slot(1, before)?;
    ensure!(set(1)? == Resized::Resized && set(2)? == Resized::Resized, "not resized");
    let until = before.window.ok_or("no window")?.until;
    context.pass(1);
    let after = context.slot(claim(2, 2)?)?;
    ensure!(after.token > before.token, "token {} after {}", after.token, before.token);
    let window = after.window.ok_or("no window")?;
    ensure!(
        window.after >= until,
        "stamps up to {until:?} were given out, and again after {:?}",
        window.after
    );
    Ok(())
}

fn largest(context: &Context<'_>) -> Outcome<()> {
    let claim = |owner: u64| {
        Ok::<_, String>(PoolClaim::new(context.pool()?, 65_536, OwnerId::new(owner), context.units(10)))
    };
    ensure!(context.slot(claim(1)?)?.slot == 0, "not the first");
    let end = lease_machines::SlotRange::new(65_534, u16::MAX).ok_or("no range")?;
    for (owner, slot) in [(2, 65_534), (3, 65_535)] {
        let held = context.slot(claim(owner)?.with_range(end))?;
        ensure!(held.slot == slot, "slot {} instead of {slot}", held.slot);
    }
    ensure!(context.slot(claim(4)?)?.slot == 1, "not the second");
    let seen = context.slots()?;
    ensure!(
        seen.size == 65_536 && seen.slots.len() == 4,
        "{} of {} slots are shown",
        seen.slots.len(),
        seen.size
    );
    Ok(())
}

fn listed(context: &Context<'_>) -> Outcome<()> {
    let pools = || block_on(context.store().pools()).map_err(told);
    let listed = |expected: &[&str], when: &str| {
        let found = pools()?;
        let same = found.iter().map(ResourceName::as_str).eq(expected.iter().copied());
        if same { Ok(()) } else { Err(format!("{when}: expected {expected:?}, found {found:?}")) }
    };
    listed(&[], "in an empty store")?;
    // Neither what leases are on, nor what was asked about and never made.
    for name in ["ids", "ids#0", "lease"] {
        let _ = context.granted(name, 1)?;
    }
    let beyond = lease_machines::SlotRange::new(4, 5).ok_or("no range")?;
    let why = context.no_slot(context.slot_claim(1)?.with_range(beyond))?;
    ensure!(why == Unclaimed::NoSuchSlot, "a claim beyond the pool: {why:?}");
    let _ = context.withdraw_slot(2)?;
    ensure!(context.slots()?.size == 0, "a pool that there is not has slots");
    listed(&[], "before the first claim")?;
    let held = context.slot_of(3)?;
    listed(&["ids"], "after a claim")?;
    for other in ["ids ", "Ids", "id\u{e9}"] {
        let made = block_on(context.store().resize_pool(name(other)?, 2)).map_err(told)?;
        ensure!(made == Resized::Resized, "the pool {other:?} is not made: {made:?}");
    }
    let all = ["Ids", "ids", "ids ", "id\u{e9}"];
    listed(&all, "after three more were made")?;
    context.free_slot(3, held)?;
    listed(&all, "with none of their slots held")?;
    // A store that has lost history, or is moved away from, is asked for them in its next epoch.
    let epoch = block_on(context.store().epoch()).map_err(told)?;
    match block_on(context.store().open_epoch(Opening::new(epoch).with_dead_holders())) {
        Ok(_) => listed(&all, "in a new epoch"),
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(()),
        Err(error) => Err(told(error)),
    }
}

fn same_name(context: &Context<'_>) -> Outcome<()> {
    let lease = context.granted("ids", 1)?;
    let slot = context.slot_of(1)?;
    let still = context.renew(&context.lease("ids", 1, lease)?)?;
    ensure!(matches!(still, crate::Renewed::Renewed(_)), "a slot took the lease: {still:?}");
    context.free_slot(1, slot)?;
    let still = context.renew(&context.lease("ids", 1, lease)?)?;
    ensure!(matches!(still, crate::Renewed::Renewed(_)), "a release of a slot took the lease: {still:?}");
    let _ = context.withdraw_slot(1)?;
    let again =
        block_on(context.store().reacquire(context.claim("ids", 1)?.with_attempt(2))).map_err(told)?;
    let _ = grant(again)?;
    Ok(())
}

fn out_of_range(context: &Context<'_>) -> Outcome<()> {
    let right = context.slot_claim(1)?;
    let max = context.store().capabilities().max_ttl;
    let wrong = [
        ("no slots", PoolClaim { size: 0, ..right.clone() }),
        ("65,537 slots", PoolClaim { size: 65_537, ..right.clone() }),
        ("attempt 0", PoolClaim { attempt: 0, ..right.clone() }),
        ("a ttl above max_ttl", PoolClaim { ttl: max + Duration::from_millis(1), ..right.clone() }),
        ("a cool-down of two years", right.clone().with_cool_down(Duration::from_secs(2 * 365 * 86_400))),
        ("a long name", PoolClaim { pool: name(&"x".repeat(250))?, ..right.clone() }),
        ("a long identity", right.clone().with_identity("x".repeat(1_025))),
        ("a label with NUL", right.clone().with_label("a\0b")),
        ("an exclusive identity that is none", right.clone().with_exclusive_identity()),
    ];
    for (what, claim) in wrong {
        let kind = kind(block_on(context.store().claim_slot(claim)))?;
        ensure!(kind == ErrorKind::Request, "{what} was answered {kind:?}");
    }
    for size in [0, 65_537] {
        let kind = kind(block_on(context.store().resize_pool(context.pool()?, size)))?;
        ensure!(kind == ErrorKind::Request, "a pool of {size} was answered {kind:?}");
    }
    let why = context.no_slot(PoolClaim { ttl: Duration::ZERO, ..right.clone() })?;
    ensure!(why == Unclaimed::Invalid(Rejection::InvalidTtl), "a ttl of 0: {why:?}");
    let held = context.slot(right)?;
    let lease = context.slot_ref(1, held)?;
    let none = block_on(context.store().renew_slot(lease.clone(), Duration::ZERO, false)).map_err(told)?;
    let why = super::not_renewed(none)?;
    ensure!(why.reason == Rejection::InvalidTtl, "a renewal for 0: {why:?}");
    let late = Duration::from_secs(u64::MAX / 2);
    let kind = kind(block_on(context.store().release_slot(lease.clone(), Some(late))))?;
    ensure!(kind == ErrorKind::Request, "a stamp that no store can keep was answered {kind:?}");
    let _ = renewed(context.renew_slot(&lease)?)?;
    // The longest name there is room for.
    let longest = name(&"x".repeat(249))?;
    let held = context.slot(PoolClaim { pool: longest.clone(), ..context.slot_claim(2)? })?;
    let fenced = SlotRef::new(longest.clone(), held.slot, OwnerId::new(2), held.token, None).fenced();
    let fenced = fenced.map_err(told)?;
    ensure!(fenced.resource == slot_name(&longest, held.slot).map_err(told)?, "fenced as {fenced:?}");
    Ok(())
}
