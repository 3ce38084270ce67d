//! Which slot a claim gets.

use std::cell::RefCell;
use std::time::Duration;

use lease_machines::{Pool, Slot, SlotClaim, Unclaimed};

/// What a claim has met on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crowd {
    /// So often another was faster at the slot that it had chosen.
    pub(super) failures: u32,
    /// Drawn for each choice.
    pub(super) random: u64,
}

/// How many slots a claim that met others once chooses among. Each time it meets them again it is four times as many.
const AMONG: usize = 8;

/// The place of the slot that the claim gets: the first in the core's order. Where others were faster, all of them would go on
/// choosing the same one. So then it is any of those that were never used, where the first is one, or of the first ones that its
/// identity left, or that have been free for longest: as on any other engine a slot that somebody is deciding on is passed over.
pub(super) fn choose(
    slots: &mut [Slot<String>],
    identity: Option<&String>,
    cool_down: Duration,
    asked: &SlotClaim<String>,
    now: Duration,
    wall: Option<Duration>,
    crowd: Option<Crowd>,
) -> Result<u16, Unclaimed> {
    let open = RefCell::new(Vec::new());
    if crowd.is_some() {
        let note = |number| {
            open.borrow_mut().push(number);
            true
        };
        // All that it may have are said to be locked: what is answered does not matter.
        let _ = over(slots, cool_down)?.claim_past(asked, now, wall, note);
    }
    // Before the first of them is granted here.
    let kind = |slot: &Slot<String>| match slot.free_from() {
        Some(since) if identity.is_some() && slot.identity() == identity => {
            (0_u8, Duration::MAX.saturating_sub(since))
        }
        None => (1, Duration::ZERO),
        Some(since) => (2, since),
    };
    let mut ranks: Vec<((u8, Duration), u16)> = open
        .into_inner()
        .into_iter()
        .filter_map(|number| Some((kind(slots.get(usize::from(number))?), number)))
        .collect();
    let first = over(slots, cool_down)?.claim(asked, now, wall)?.slot;
    let Some(crowd) = crowd else { return Ok(first) };
    let of_first = ranks.iter().find(|(_, number)| *number == first).map(|((class, _), _)| *class);
    ranks.retain(|((class, _), _)| Some(*class) == of_first);
    ranks.sort_unstable();
    let among = match of_first {
        Some(1) => ranks.len(),
        _ => AMONG.saturating_mul(4_usize.saturating_pow(crowd.failures.saturating_sub(1))).min(ranks.len()),
    };
    let picked = usize::try_from(crowd.random % among.max(1) as u64).unwrap_or(0);
    Ok(ranks.get(picked).map_or(first, |(_, number)| *number))
}

fn over(slots: &mut [Slot<String>], cool_down: Duration) -> Result<Pool<'_, String>, Unclaimed> {
    Pool::over(slots, cool_down).ok_or(Unclaimed::NoSuchSlot)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use lease_machines::OwnerId;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const NOW: Duration = Duration::from_secs(1_000);

    /// Twenty slots. `a` and `b` were granted the first ten in turns, which were over one after another.
    fn slots() -> Vec<Slot<String>> {
        let mut slots: Vec<Slot<String>> = (0..20).map(|_| Slot::new()).collect();
        let mut pool = Pool::over(&mut slots, SECOND).unwrap();
        for number in 0..10_u32 {
            let identity = if number % 2 == 0 { "a" } else { "b" };
            let claim = SlotClaim::new(OwnerId::new(u64::from(number) + 1), 10 * SECOND);
            let grant = pool.claim(&claim.with_identity(identity.to_owned()), number * SECOND, None).unwrap();
            assert_eq!(u32::from(grant.slot), number, "as long as none is over");
        }
        slots
    }

    fn picked(identity: Option<&str>, failures: u32, used: usize) -> BTreeSet<u16> {
        let identity = identity.map(str::to_owned);
        let claim = SlotClaim::new(OwnerId::new(99), SECOND);
        let claim = match &identity {
            Some(identity) => claim.with_identity(identity.clone()),
            None => claim,
        };
        (0..200)
            .map(|random| {
                let mut slots = slots();
                slots.truncate(used);
                let crowd = (failures > 0).then_some(Crowd { failures, random });
                choose(&mut slots, identity.as_ref(), SECOND, &claim, NOW, None, crowd).unwrap()
            })
            .collect()
    }

    #[test]
    fn who_met_nobody_gets_the_first_in_the_order_of_the_core() {
        assert_eq!(picked(None, 0, 20), [10].into(), "the first that was never used");
        assert_eq!(picked(None, 0, 10), [0].into(), "the one free for longest");
        assert_eq!(picked(Some("a"), 0, 20), [8].into(), "the one that it left last");
        assert_eq!(picked(Some("b"), 0, 20), [9].into(), "the one that it left last");
    }

    #[test]
    fn whoever_met_others_gets_any_that_is_as_good() {
        assert_eq!(picked(None, 1, 20), (10..20).collect(), "all that were never used, and no other");
        assert_eq!(picked(None, 1, 10), (0..8).collect(), "those that have been free for longest");
        assert_eq!(picked(None, 2, 10), (0..10).collect(), "more, where it has met others twice");
        assert_eq!(picked(Some("a"), 1, 20), [0, 2, 4, 6, 8].into(), "its own, and no other");
    }

    #[test]
    fn where_there_is_none_it_is_said_why() {
        let claim = SlotClaim::new(OwnerId::new(99), SECOND);
        for crowd in [None, Some(Crowd { failures: 3, random: 7 })] {
            let mut slots = slots();
            slots.truncate(10);
            let none = choose(&mut slots, None, NOW, &claim, NOW, None, crowd);
            // The first was free from 10 s on.
            assert_eq!(none, Err(Unclaimed::Exhausted { next_chance: Some(NOW + 10 * SECOND) }));
            assert_eq!(choose(&mut [], None, NOW, &claim, NOW, None, crowd), Err(Unclaimed::NoSuchSlot));
        }
    }
}
