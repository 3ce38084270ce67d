//! The trait that every engine implements.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use lease_machines::{FencingToken, OwnerId};

use crate::{
    Acquired, Capabilities, Claim, Ending, Epoch, ErrorKind, Finding, HistoryEntry, Inspection, LeaseRef,
    Opening, Pruned, Released, Renewed, ResourceName, Revoked, StoreError,
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
    /// down. The last good end of a resource is kept.
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

    /// Looks for what weakens the store's promises here and now. The worst comes first.
    fn doctor(&self) -> Answer<'_, Vec<Finding>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}
