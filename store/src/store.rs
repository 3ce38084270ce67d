//! The trait that every engine implements.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use lease_machines::{FencingToken, OwnerId};

use crate::{
    Acquired, Capabilities, Claim, Claimed, Ending, Epoch, ErrorKind, Finding, HistoryEntry, Inspection,
    LeaseRef, Opening, PoolClaim, PoolInspection, Pruned, Released, Renewed, Resized, ResourceName, Revoked,
    Room, SlotRef, SlotRenewed, StoreError,
};

/// The future of a store's answer: boxed and `Send`, so that a store can be chosen at run time.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// A durable authority for any number of resources.
///
/// Every call that decides gives exactly the core's decision, made where the data is, by the store's own clock, and
/// committed before it is answered. `Err` means that there is no decision; [`StoreError::undecided`] says what is
/// known instead.
///
/// Every future may be dropped at any point. The store then either never does what was asked, or has done it: it holds
/// no transaction open and leaves no grant behind that `withdraw`, or the end of its term, does not take away.
///
/// Calls: [`acquire`](Self::acquire), [`reacquire`](Self::reacquire), [`renew`](Self::renew),
/// [`renew_many`](Self::renew_many), [`release`](Self::release), [`withdraw`](Self::withdraw) and
/// [`revoke`](Self::revoke) decide; [`inspect`](Self::inspect), [`list`](Self::list) and [`history`](Self::history)
/// only look; [`wait`](Self::wait) passes the time until another try is worth it.
///
/// # Slots
///
/// Where [`Capabilities::slots`](crate::Capabilities::slots) says so, a store also keeps pools: N slots, each an authority
/// of its own, see the core's [`Pool`](lease_machines::Pool), which says what each of these calls decides:
/// [`claim_slot`](Self::claim_slot), [`reclaim_slot`](Self::reclaim_slot), [`renew_slot`](Self::renew_slot),
/// [`release_slot`](Self::release_slot), [`withdraw_slot`](Self::withdraw_slot) and
/// [`revoke_slot`](Self::revoke_slot). Beside the core's rules stand those of every call here:
///
/// - **Epochs**: as for leases. In a new epoch no ID time is reserved that a lost history may have given out: marks begin
///   at the store's clock at its opening + `max_ttl`.
/// - **Owners and attempts**: an owner holds at most one slot of a pool. A doubled or delayed claim is answered with what
///   its owner holds, or *not done* ([`Superseded`](ErrorKind::Superseded)); never with a second slot. One whose answer was
///   lost is repeated as `reclaim_slot` with the next attempt; one that is given up is withdrawn.
/// - **Recording**: as for leases. A claim that got no slot writes nothing.
/// - **First tokens** of a slot lie above the store's clock in microseconds, and above its floor.
///
/// [`resize_pool`](Self::resize_pool) is an operator's, [`pools`](Self::pools), [`slots`](Self::slots) and
/// [`room`](Self::room) only look, and [`history`](Self::history) of [`slot_name`](crate::slot_name) says who held a slot. Pools are not pruned: their tokens
/// and marks are few, and are to last.
pub trait Store: Send + Sync {
    /// What this store can promise.
    fn capabilities(&self) -> &Capabilities;

    /// The store's current epoch.
    fn epoch(&self) -> Answer<'_, Epoch>;

    /// Takes the resource if it is free, as [`LeaseAuthority::acquire`](lease_machines::LeaseAuthority::acquire).
    ///
    /// With a once-key under which work has ended well before: [`Acquired::AlreadyDone`], whoever holds it.
    fn acquire(&self, claim: Claim) -> Answer<'_, Acquired>;

    /// As [`acquire`](Self::acquire), but the owner's own live lease is replaced by one under a greater token. This is
    /// how an acquire whose answer was lost is repeated, with the next attempt number.
    fn reacquire(&self, claim: Claim) -> Answer<'_, Acquired>;

    /// Extends a lease; never shortens one, never revives one.
    fn renew(&self, lease: LeaseRef, ttl: Duration) -> Answer<'_, Renewed>;

    /// Extends many leases in one round trip, one decision each, in the order asked. Where the whole failed, each is
    /// that error's kind.
    fn renew_many(&self, leases: Vec<(LeaseRef, Duration)>) -> Answer<'_, Vec<Result<Renewed, StoreError>>>;

    /// Gives a lease back, and records how the work under it ended.
    fn release(&self, lease: LeaseRef, ending: Ending) -> Answer<'_, Released>;

    /// Vacates whatever this owner holds on the resource, without knowing the token, and makes every request that this
    /// owner sent earlier, and that is still on its way, come to nothing.
    fn withdraw(&self, resource: ResourceName, owner: OwnerId) -> Answer<'_, Released>;

    /// The operator's break, as [`LeaseAuthority::revoke`](lease_machines::LeaseAuthority::revoke): vacates the
    /// resource and burns one token, which it returns. `reason` goes into the history.
    fn revoke(
        &self,
        resource: ResourceName,
        expect: Option<FencingToken>,
        reason: Option<String>,
    ) -> Answer<'_, Revoked>;

    /// How the resource stands.
    fn inspect(&self, resource: ResourceName) -> Answer<'_, Inspection>;

    /// How all resources stand whose name begins with `prefix`, in byte order of their names.
    fn list(&self, prefix: String) -> Answer<'_, Vec<Inspection>>;

    /// Who held the resource, the latest first, at most `limit` rows.
    fn history(&self, resource: ResourceName, limit: usize) -> Answer<'_, Vec<HistoryEntry>>;

    /// Forgets resources that nobody has held for `older_than`, and history that old, without any token ever going
    /// down. The last good end of a resource is kept. Where it fails on its way, what was forgotten stays so, and the error
    /// is *unknown*.
    fn prune(&self, older_than: Duration) -> Answer<'_, Pruned>;

    /// Returns when the resource may be free, or `limit` has passed: a hint to ask again, never a promise.
    fn wait(&self, resource: ResourceName, limit: Duration) -> Answer<'_, ()>;

    /// Opens a new epoch in place of the current one, and returns the epoch that the store is in afterwards. Every
    /// lease of the old epoch is lost: its holders hear of the new one with their next request.
    ///
    /// For an operator who has put a backup back, or knows of another loss that the store cannot see.
    fn open_epoch(&self, opening: Opening) -> Answer<'_, Epoch> {
        let message = format!("this store opens no epochs: it is in {} for good", opening.instead_of);
        Box::pin(async move { Err(StoreError::new(ErrorKind::Unsupported, message)) })
    }

    /// Takes one slot of a pool, as [`Pool::claim`](lease_machines::Pool::claim): the one that the claim's identity held last,
    /// if it is free, else one that was never used, else the one that has been free for longest. One round trip, however
    /// many slots there are.
    ///
    /// The first claim makes the pool. One that names more slots than the pool has is *refused* as
    /// [`PoolSize`](ErrorKind::PoolSize).
    fn claim_slot(&self, claim: PoolClaim) -> Answer<'_, Claimed> {
        no_slots(&claim.pool)
    }

    /// As [`claim_slot`](Self::claim_slot), but where the owner holds a slot in the claim's range, it keeps that under a
    /// greater token, with the ID time that it had and what is reserved now.
    fn reclaim_slot(&self, claim: PoolClaim) -> Answer<'_, Claimed> {
        no_slots(&claim.pool)
    }

    /// Extends the lease of a slot, and with `id_time` reserves ID time from where its window began to the store's clock +
    /// `ttl`. Never shortens one, never revives one.
    fn renew_slot(&self, lease: SlotRef, ttl: Duration, id_time: bool) -> Answer<'_, SlotRenewed> {
        let _ = (ttl, id_time);
        no_slots(&lease.pool)
    }

    /// Gives a slot back. With `last_used`, the last stamp of ID time that its holder has used, the rest of its window is
    /// given back too; without, all of it counts as used.
    fn release_slot(&self, lease: SlotRef, last_used: Option<Duration>) -> Answer<'_, Released> {
        let _ = last_used;
        no_slots(&lease.pool)
    }

    /// Vacates whatever this owner holds in the pool, without knowing slot and token, and makes every claim that it sent
    /// earlier, and that is still on its way, come to nothing. [`Vacant`](lease_machines::Rejection::Vacant) where it holds
    /// nothing.
    fn withdraw_slot(&self, pool: ResourceName, owner: OwnerId) -> Answer<'_, Released> {
        let _ = owner;
        no_slots(&pool)
    }

    /// The operator's break, as [`revoke`](Self::revoke). The slot stays closed until the revoked lease would have ended.
    fn revoke_slot(
        &self,
        pool: ResourceName,
        slot: u16,
        expect: Option<FencingToken>,
        reason: Option<String>,
    ) -> Answer<'_, Revoked> {
        let _ = (slot, expect, reason);
        no_slots(&pool)
    }

    /// The names of all pools, in byte order: of those that a claim or [`resize_pool`](Self::resize_pool) has made, whether a
    /// slot of them is held or not. A pool is never forgotten, and a new epoch keeps it.
    fn pools(&self) -> Answer<'_, Vec<ResourceName>> {
        let message = "this store keeps no pools, or does not say which";
        Box::pin(async move { Err(StoreError::new(ErrorKind::Unsupported, message)) })
    }

    /// How the pool and all its slots stand.
    fn slots(&self, pool: ResourceName) -> Answer<'_, PoolInspection> {
        no_slots(&pool)
    }

    /// How much of the pool is left for claims like this one, by its size, its range and its cool-down: a snapshot. Unless
    /// overridden it lists the slots; those that come with this crate count where they are.
    fn room(&self, claim: PoolClaim) -> Answer<'_, Room> {
        Box::pin(async move { Ok(self.slots(claim.pool.clone()).await?.room(&claim)) })
    }

    /// Gives a pool this many slots, from 1 to 65,536; one that there is not is made. It becomes smaller only where nobody
    /// holds a slot that would be cut off. Such a slot keeps its tokens and its mark, for when the pool grows again.
    fn resize_pool(&self, pool: ResourceName, size: u32) -> Answer<'_, Resized> {
        let _ = size;
        no_slots(&pool)
    }

    /// Looks for what weakens the store's promises here and now. The worst comes first.
    fn doctor(&self) -> Answer<'_, Vec<Finding>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

fn no_slots<'a, T: Send + 'a>(pool: &ResourceName) -> Answer<'a, T> {
    let message = format!("this store keeps no pools, {pool:?} among them");
    Box::pin(async move { Err(StoreError::new(ErrorKind::Unsupported, message)) })
}
