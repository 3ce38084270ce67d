//! Who shares a line of the picture.

use lease_machines_store::HistoryEntry;

use crate::output::people;

/// The holds of one holder.
pub(super) struct Lane<'a> {
    pub(super) name: String,
    pub(super) holds: Vec<&'a HistoryEntry>,
}

/// One lane for each holder, in the order in which they came.
///
/// A holder is known by its identity, else by its label without the number at its end: `user@host:pid` is another one
/// at each run, and a hundred runs of one machine would make a hundred lanes.
pub(super) fn lanes<'a>(holds: &[&'a HistoryEntry]) -> Vec<Lane<'a>> {
    let mut lanes: Vec<Lane<'a>> = Vec::new();
    for hold in holds {
        let name = holder(hold);
        match lanes.iter_mut().find(|lane| lane.name == name) {
            Some(lane) => lane.holds.push(hold),
            None => lanes.push(Lane { name, holds: vec![hold] }),
        }
    }
    lanes
}

fn holder(hold: &HistoryEntry) -> String {
    let label = hold.label.as_deref().map(|label| match label.rsplit_once(':') {
        Some((who, pid))
            if !who.is_empty() && !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            who
        }
        _ => label,
    });
    people::name(hold.identity.as_deref().or(label), None, hold.owner)
}
