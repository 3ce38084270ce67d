//! What is where.

use lease_machines::{FencingToken, OwnerId};

use crate::{MarkKey, ResourceName};

/// The keys of one store. Names are bytes, and end at a NUL where something follows: no name has one.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    prefix: String,
}

impl Keys {
    pub(super) fn new(namespace: &str) -> Self {
        Self { prefix: format!("/lease-machines/{namespace}/") }
    }

    fn key(&self, kind: char, rest: &[&[u8]]) -> Vec<u8> {
        let mut key = format!("{}{kind}/", self.prefix).into_bytes();
        for part in rest {
            key.extend_from_slice(part);
        }
        key
    }

    /// What all keys begin with.
    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The epoch, its floor, and the cluster that it was opened on.
    pub(super) fn standing(&self) -> Vec<u8> {
        format!("{}epoch", self.prefix).into_bytes()
    }

    /// Never written: for the question whether it might be.
    pub(super) fn doctor(&self) -> Vec<u8> {
        format!("{}doctor", self.prefix).into_bytes()
    }

    /// There as long as nothing is granted: on an etcd lease.
    pub(super) fn wait(&self) -> Vec<u8> {
        format!("{}wait", self.prefix).into_bytes()
    }

    /// Written with whatever a prune deletes: what it may have forgotten was granted before its revision.
    pub(super) fn pruned(&self) -> Vec<u8> {
        format!("{}pruned", self.prefix).into_bytes()
    }

    /// Who holds the resource, and who vacated it last.
    pub(super) fn state(&self, resource: &ResourceName) -> Vec<u8> {
        self.key('s', &[resource.as_str().as_bytes()])
    }

    /// All states of names that begin like this.
    pub(super) fn states(&self, prefix: &str) -> Vec<u8> {
        self.key('s', &[prefix.as_bytes()])
    }

    /// The name that a state's key is about.
    pub(super) fn name_of(&self, state: &[u8]) -> Option<ResourceName> {
        let name = state.strip_prefix(self.states("").as_slice())?;
        ResourceName::new(std::str::from_utf8(name).ok()?).ok()
    }

    /// There as long as the lease lives: on an etcd lease.
    pub(super) fn live(&self, resource: &ResourceName) -> Vec<u8> {
        self.key('l', &[resource.as_str().as_bytes()])
    }

    pub(super) fn lives(&self, prefix: &str) -> Vec<u8> {
        self.key('l', &[prefix.as_bytes()])
    }

    /// When the current hold was renewed, and how often: for people.
    pub(super) fn renewed(&self, resource: &ResourceName) -> Vec<u8> {
        self.key('r', &[resource.as_str().as_bytes()])
    }

    pub(super) fn reneweds(&self, prefix: &str) -> Vec<u8> {
        self.key('r', &[prefix.as_bytes()])
    }

    /// The last time that work ended well.
    pub(super) fn good(&self, resource: &ResourceName) -> Vec<u8> {
        self.key('g', &[resource.as_str().as_bytes()])
    }

    pub(super) fn goods(&self, prefix: &str) -> Vec<u8> {
        self.key('g', &[prefix.as_bytes()])
    }

    /// There for two hours once an owner has withdrawn.
    pub(super) fn withdrawn(&self, resource: &ResourceName, owner: OwnerId) -> Vec<u8> {
        let owner = format!("{:016x}", owner.value());
        self.key('x', &[resource.as_str().as_bytes(), b"\0", owner.as_bytes()])
    }

    /// Work that was done under a once-key.
    pub(super) fn done(&self, resource: &ResourceName, once: &str) -> Vec<u8> {
        self.key('d', &[resource.as_str().as_bytes(), b"\0", once.as_bytes()])
    }

    /// The highest token that a fence has seen, and whose.
    pub(super) fn mark(&self, of: &MarkKey) -> Vec<u8> {
        self.of_mark('f', of)
    }

    /// When it was written last.
    pub(super) fn mark_time(&self, of: &MarkKey) -> Vec<u8> {
        self.of_mark('t', of)
    }

    /// How an operator has set it back last.
    pub(super) fn mark_reset(&self, of: &MarkKey) -> Vec<u8> {
        self.of_mark('!', of)
    }

    fn of_mark(&self, kind: char, of: &MarkKey) -> Vec<u8> {
        let slot = of.slot.to_string();
        self.key(kind, &[of.resource.as_str().as_bytes(), b"\0", slot.as_bytes(), b"\0", of.store.as_bytes()])
    }

    /// How many slots a pool has.
    pub(super) fn pool(&self, pool: &ResourceName) -> Vec<u8> {
        self.key('P', &[pool.as_str().as_bytes()])
    }

    /// The sizes of all pools.
    pub(super) fn pools(&self) -> Vec<u8> {
        self.key('P', &[])
    }

    /// The name that the key of a pool's size is about.
    pub(super) fn pool_of(&self, size: &[u8]) -> Option<ResourceName> {
        let name = size.strip_prefix(self.pools().as_slice())?;
        ResourceName::new(std::str::from_utf8(name).ok()?).ok()
    }

    /// A slot of it: who holds it, who vacated it last, and what ID time is used up. Also the end of a range of them, which may
    /// lie beyond the last number that there is.
    pub(super) fn slot(&self, pool: &ResourceName, number: u32) -> Vec<u8> {
        self.of_slot('S', pool, number)
    }

    /// There as long as a slot is held, or closed after a revoke: on an etcd lease.
    pub(super) fn slot_live(&self, pool: &ResourceName, number: u32) -> Vec<u8> {
        self.of_slot('L', pool, number)
    }

    fn of_slot(&self, kind: char, pool: &ResourceName, number: u32) -> Vec<u8> {
        // Five digits, so that their order is that of the numbers.
        self.key(kind, &[pool.as_str().as_bytes(), b"\0", format!("{number:05}").as_bytes()])
    }

    /// The number in the key of a slot, or in that of its lease.
    pub(super) fn number_of(&self, pool: &ResourceName, slot: &[u8]) -> Option<u16> {
        let kinds = ['S', 'L'].map(|kind| self.key(kind, &[pool.as_str().as_bytes(), b"\0"]));
        let number = kinds.iter().find_map(|prefix| slot.strip_prefix(prefix.as_slice()))?;
        std::str::from_utf8(number).ok()?.parse().ok()
    }

    pub(super) fn all_slots(&self) -> Vec<u8> {
        self.key('S', &[])
    }

    pub(super) fn all_slot_lives(&self) -> Vec<u8> {
        self.key('L', &[])
    }

    /// The slot that an owner was the last to be granted.
    pub(super) fn slot_owner(&self, pool: &ResourceName, owner: OwnerId) -> Vec<u8> {
        let owner = format!("{:016x}", owner.value());
        self.key('O', &[pool.as_str().as_bytes(), b"\0", owner.as_bytes()])
    }

    /// There for two hours once an owner has withdrawn from a pool.
    pub(super) fn slot_withdrawn(&self, pool: &ResourceName, owner: OwnerId) -> Vec<u8> {
        let owner = format!("{:016x}", owner.value());
        self.key('X', &[pool.as_str().as_bytes(), b"\0", owner.as_bytes()])
    }

    /// One hold that has ended.
    pub(super) fn hold(&self, resource: &ResourceName, token: FencingToken) -> Vec<u8> {
        let token = format!("{:016x}", token.value());
        self.key('h', &[resource.as_str().as_bytes(), b"\0", token.as_bytes()])
    }

    pub(super) fn all_holds(&self) -> Vec<u8> {
        self.key('h', &[])
    }

    pub(super) fn holds(&self, resource: &ResourceName) -> Vec<u8> {
        self.key('h', &[resource.as_str().as_bytes(), b"\0"])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_a_slot_says_its_number_and_they_are_in_its_order() {
        let keys = Keys::new("x");
        let pool = ResourceName::new("ids").unwrap();
        let mut last = Vec::new();
        for number in [0, 9, 10, 255, 65_535] {
            let (state, live) = (keys.slot(&pool, number), keys.slot_live(&pool, number));
            assert!(state > last, "{number}");
            for key in [&state, &live] {
                assert_eq!(keys.number_of(&pool, key).map(u32::from), Some(number));
            }
            assert_eq!(keys.number_of(&ResourceName::new("id").unwrap(), &state), None, "of another pool");
            last = state;
        }
        assert!(keys.slot(&pool, 65_536) > last, "the end of all");
        let longer = ResourceName::new("ids2").unwrap();
        assert!(
            keys.slot(&longer, 0) > keys.slot(&pool, 65_536),
            "a pool of a longer name is not among them"
        );
    }
}
