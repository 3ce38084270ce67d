//! What always holds of a slot, in one list. Checked after every transition in debug builds, and of every record.

use super::Slot;

const NAMES: [&str; 4] = [
    "a slot with a lease is not freed",
    "a window belongs to a lease",
    "a window begins at or below the mark",
    "what was never granted was never freed",
];

/// The first invariant that does not hold.
pub(super) fn broken<I>(slot: &Slot<I>) -> Option<&'static str> {
    let holds = [
        slot.lease().is_none() || slot.freed_at.is_none(),
        slot.lease().is_some() || slot.window_after.is_none(),
        slot.window_after.is_none_or(|after| after <= slot.mark),
        slot.last_issued().is_some() || slot.freed_at.is_none(),
    ];
    NAMES.into_iter().zip(holds).find(|(_, holds)| !holds).map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use crate::{Checkpoint, FencingToken, Lease, OwnerId, Pool, Rejection, Slot, SlotRecord};

    const SECOND: Duration = Duration::from_secs(1);

    fn record(last: Option<FencingToken>, lease: Option<Lease>) -> SlotRecord<u8> {
        let checkpoint = Checkpoint::from_parts(last, lease, SECOND).expect("a possible authority");
        SlotRecord { checkpoint, identity: Some(1), freed_at: None, mark: SECOND, window_after: None }
    }

    #[test]
    fn an_impossible_record_is_no_slot() {
        let lease = Lease::new(OwnerId::new(1), FencingToken::FIRST, SECOND);
        let held = record(Some(FencingToken::FIRST), Some(lease));
        let vacant = record(Some(FencingToken::FIRST), None);
        let fresh = record(None, None);
        let possible = [
            SlotRecord { window_after: Some(SECOND), ..held.clone() },
            SlotRecord { freed_at: Some(SECOND), ..vacant.clone() },
            fresh.clone(),
        ];
        for record in possible {
            let slot = Slot::restore(record.clone()).expect("a possible slot");
            assert_eq!(slot.record(), record);
        }
        let impossible = [
            SlotRecord { freed_at: Some(SECOND), ..held.clone() },
            SlotRecord { window_after: Some(SECOND), ..vacant },
            SlotRecord { window_after: Some(SECOND * 2), ..held },
            SlotRecord { freed_at: Some(SECOND), ..fresh },
        ];
        for (record, name) in impossible.into_iter().zip(super::NAMES) {
            assert_eq!(Slot::restore(record), None, "{name}");
        }
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "what was never granted was never freed")]
    fn a_debug_build_does_not_go_on_from_an_impossible_slot() {
        let mut slots = [Slot::<u8> { freed_at: Some(SECOND), ..Slot::new() }];
        let refused =
            Pool::over(&mut slots, SECOND).map(|mut pool| pool.revoke(0, Some(FencingToken::FIRST), SECOND));
        assert_eq!(refused, Some(Err(Rejection::Vacant)), "unless it has stopped");
    }
}
