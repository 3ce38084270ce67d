//! Slots that processes of this machine have left behind.

use std::collections::BTreeMap;

use lease_machines::Gone;
use lease_machines_os::Process;
use lease_machines_store::{PoolClaim, PoolInspection};

/// How the process stands at the end of a label: `web-1 [pid=… start=… ns=… boot=…]`.
pub(super) fn labelled(label: Option<&str>, process: &Process) -> String {
    match label {
        Some(label) => format!("{label} [{process}]"),
        None => format!("[{process}]"),
    }
}

/// The process that a label ends with.
fn process_of(label: &str) -> Option<Process> {
    let (before, process) = label.strip_suffix(']')?.rsplit_once('[')?;
    (before.is_empty() || before.ends_with(' ')).then(|| process.parse().ok())?
}

/// A lease that the claim's identity has on a slot which it may get, by a process of which `is_gone` has proof. Of several one
/// that the claim's owner decides on: so many processes of one name that are started again at once, each with an owner drawn
/// for itself, seldom ask for the same one.
pub(super) fn left_behind(
    seen: &PoolInspection,
    claim: &PoolClaim,
    is_gone: impl Fn(&Process) -> bool,
) -> Option<Gone> {
    let identity = claim.identity.as_ref()?;
    let is_within = |slot: u16| {
        (claim.range.first()..=claim.range.last()).contains(&slot) && u32::from(slot) < claim.size
    };
    let mut asked = BTreeMap::new();
    let mut gone: Vec<Gone> = Vec::new();
    for slot in seen.slots.iter().filter(|slot| is_within(slot.slot)) {
        let Some(held) = slot.occupant.as_ref().filter(|held| held.identity.as_ref() == Some(identity))
        else {
            continue;
        };
        let Some(process) = held.label.as_deref().and_then(process_of) else { continue };
        // A process may hold many slots, and the answer takes some tenths of a millisecond.
        if *asked.entry(process.to_string()).or_insert_with(|| is_gone(&process)) {
            gone.push(Gone { slot: slot.slot, token: held.token });
        }
    }
    let count = u64::try_from(gone.len()).ok()?;
    let chosen = claim.owner.value().checked_rem(count)?;
    gone.get(usize::try_from(chosen).ok()?).copied()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lease_machines::{FencingToken, OwnerId, SlotRange};
    use lease_machines_store::{Epoch, Occupant, ResourceName, SlotInspection};

    use super::*;

    const BOOT: &str = "507d1437-0bd8-496e-8ef1-f32574c29fbb";

    fn process(pid: u32) -> Process {
        format!("pid={pid} start=7 ns=1,2 boot={BOOT}").parse().unwrap()
    }

    fn token(value: u64) -> FencingToken {
        FencingToken::new(value).unwrap()
    }

    fn claim(owner: u64) -> PoolClaim {
        let name = ResourceName::new("ids").unwrap();
        PoolClaim::new(name, 8, OwnerId::new(owner), Duration::from_secs(60)).with_identity("web")
    }

    /// A pool whose slots are held under these identities and labels.
    fn seen(slots: &[(u16, Option<&str>, Option<String>)]) -> PoolInspection {
        let name = ResourceName::new("ids").unwrap();
        let mut seen = PoolInspection::unseen(name, Epoch::new(1).unwrap(), Duration::ZERO);
        for (number, identity, label) in slots {
            let mut slot = SlotInspection::new(*number);
            let value = 100 + u64::from(*number);
            let left = Duration::from_secs(60);
            let mut held = Occupant::new(OwnerId::new(value), token(value), Duration::ZERO, left);
            held.identity = identity.map(str::to_owned);
            held.label.clone_from(label);
            slot.identity.clone_from(&held.identity);
            slot.occupant = Some(held);
            seen.slots.push(slot);
        }
        seen
    }

    fn dead(pid: u32) -> Option<String> {
        Some(labelled(Some("a host"), &process(pid)))
    }

    #[test]
    fn a_process_is_read_from_the_end_of_a_label() {
        for label in [None, Some(""), Some("web-1"), Some("a [b] c"), Some("[pid=1 start=1]")] {
            let written = labelled(label, &process(4711));
            assert_eq!(process_of(&written), Some(process(4711)), "{written}");
            assert_eq!(label.and_then(process_of), None);
        }
        let text = process(4711).to_string();
        for wrong in
            [text.clone(), format!("[{text}"), format!("web-1[{text}]"), format!("[{text}] of web-1")]
        {
            assert_eq!(process_of(&wrong), None, "{wrong}");
        }
    }

    #[test]
    fn only_the_own_identitys_slots_whose_process_is_gone_are_left_behind() {
        let slots = [
            (0, Some("web"), dead(1)),
            (1, Some("db"), dead(2)),
            (2, None, dead(2)),
            (3, Some("web"), Some("without a process".to_owned())),
            (4, Some("web"), None),
            (5, Some("web"), dead(2)),
            (8, Some("web"), dead(2)),
        ];
        let seen = seen(&slots);
        let two = process(2);
        let of_two = |asked: &Process| *asked == two;
        let gone = Gone { slot: 5, token: token(105) };
        assert_eq!(left_behind(&seen, &claim(77), of_two), Some(gone));
        assert_eq!(left_behind(&seen, &claim(77), |_| false), None);
        assert_eq!(left_behind(&seen, &claim(77).with_range(SlotRange::only(4)), |_| true), None);
        let mut nobody = claim(77);
        nobody.identity = None;
        assert_eq!(left_behind(&seen, &nobody, |_| true), None, "every slot is a stranger's");
    }

    #[test]
    fn a_slot_that_is_free_is_not_left_behind() {
        let mut seen = seen(&[(0, Some("web"), dead(1))]);
        seen.slots[0].occupant = None;
        assert_eq!(left_behind(&seen, &claim(77), |_| true), None);
    }

    #[test]
    fn of_several_each_owner_asks_for_another() {
        let seen = seen(&[0, 2, 5].map(|slot| (slot, Some("web"), dead(u32::from(slot) + 1))));
        let chosen = [0, 1, 2, 3].map(|owner| left_behind(&seen, &claim(owner), |_| true).unwrap().slot);
        assert_eq!(chosen, [0, 2, 5, 0]);
    }
}
