//! The fence where the write is: what to add to the writer's own transaction.

use std::time::{Duration, SystemTime};

use etcd_client::{Client, Compare, CompareOp, Error, KeyValue, Txn, TxnOp, TxnResponse};
use lease_machines::{FencingToken, OwnerId};

use super::keys::Keys;
use super::reading::{Wanted, gets};
use super::record::{read_mark, write_mark};
use crate::decide::micros;
use crate::fence::{believed, below, rewound, same_resource};
use crate::{GuardError, GuardErrorKind, GuardKind, GuardMode, LeaseRef, Mark, MarkKey, StoreError};

/// The fence of an etcd cluster, for writes by the program's own client.
///
/// A new holder first [advances](Self::advance) the mark: from then on no older holder passes. Each protected write then goes
/// into a transaction with a [guard](Self::guard), which lets it pass only as long as the mark is this lease's own:
///
/// ```no_run
/// use etcd_client::{Client, TxnOp};
/// use lease_machines_store::{EtcdFence, EtcdOptions, GuardMode, LeaseRef, MarkKey};
///
/// async fn write(client: &mut Client, lease: &LeaseRef) -> Result<(), Box<dyn std::error::Error>> {
///     let fence = EtcdFence::new(EtcdOptions::NAMESPACE);
///     let mark = MarkKey::new(lease.resource.clone());
///     fence.advance(client, &mark, lease).await?;
///     let guard = fence.guard(client, &mark, lease, GuardMode::Auto).await?;
///     let answer = client.txn(guard.txn([TxnOp::put("report", "made", None)])).await?;
///     guard.passed(&answer)?; // refuses whoever was replaced; nothing was written then
///     Ok(())
/// }
/// ```
///
/// Whoever reads first, and writes what depends on it, compares what was read in the same transaction. etcd's transactions are
/// serializable: there is no isolation to choose, and nothing waits. The fence trusts its callers; it does not authenticate
/// them.
#[derive(Clone, Debug)]
pub struct EtcdFence {
    keys: Keys,
}

/// What one write is guarded by: made once for a lease, and good for any number of transactions.
#[derive(Clone, Debug)]
pub struct EtcdGuard {
    kind: GuardKind,
    key: MarkKey,
    /// `None` for a write that shows no lease.
    lease: Option<LeaseRef>,
    when: Vec<Compare>,
    then: Vec<TxnOp>,
    look: TxnOp,
}

impl EtcdFence {
    /// The marks that lie in a namespace, which is the leases' own where both are in one cluster.
    #[must_use]
    pub fn new(namespace: &str) -> Self {
        Self { keys: Keys::new(namespace) }
    }

    /// Raises the mark to the lease's token, in a transaction of its own: what a new holder does before it reads or writes.
    /// One that stands there already is fine.
    ///
    /// # Errors
    ///
    /// [`StaleToken`](GuardErrorKind::StaleToken) where a newer holder has been here, and the other kinds as they say.
    /// [`Database`](GuardErrorKind::Database) where the cluster did not carry it out: it may have.
    pub async fn advance(
        &self,
        client: &mut Client,
        key: &MarkKey,
        lease: &LeaseRef,
    ) -> Result<(), GuardError> {
        check(key, lease)?;
        let (own, at) = (write_mark(lease.token, lease.owner), self.keys.mark_time(key));
        let mark = self.keys.mark(key);
        loop {
            let found = client.get(mark.clone(), None).await.map_err(failed)?;
            let seen = found.kvs().first();
            if let Some(kv) = seen {
                let (highest, first) = read_mark(kv).map_err(damaged)?;
                if highest == lease.token && first == lease.owner {
                    return Ok(());
                }
                if highest >= lease.token {
                    return Err(refusal(key, lease, highest, first));
                }
            }
            let same =
                Compare::mod_revision(mark.clone(), CompareOp::Equal, seen.map_or(0, KeyValue::mod_revision));
            let put = [TxnOp::put(mark.clone(), own.clone(), None), TxnOp::put(at.clone(), now(), None)];
            if client.txn(Txn::new().when([same]).and_then(put)).await.map_err(failed)?.succeeded() {
                return Ok(());
            }
        }
    }

    /// A guard for writes under a lease, whose mark has been [advanced](Self::advance). The strict one looks the lease up
    /// here, once; it lets nothing pass any more as soon as the lease has run out, or was released, revoked or replaced.
    ///
    /// # Errors
    ///
    /// [`Lost`](GuardErrorKind::Lost) where the strict guard finds the lease over, [`NotStrict`](GuardErrorKind::NotStrict)
    /// where it was asked for and the leases are not in this cluster, and the others as they say.
    pub async fn guard(
        &self,
        client: &mut Client,
        key: &MarkKey,
        lease: &LeaseRef,
        mode: GuardMode,
    ) -> Result<EtcdGuard, GuardError> {
        check(key, lease)?;
        let own = write_mark(lease.token, lease.owner);
        let mark = self.keys.mark(key);
        let mut guard = EtcdGuard {
            kind: GuardKind::Plain,
            key: key.clone(),
            lease: Some(lease.clone()),
            when: vec![Compare::value(mark.clone(), CompareOp::Equal, own.clone())],
            then: vec![
                TxnOp::put(mark.clone(), own, None),
                TxnOp::put(self.keys.mark_time(key), now(), None),
            ],
            look: TxnOp::get(mark, None),
        };
        if mode != GuardMode::Plain {
            match self.strict(client, lease).await? {
                Some(strict) => {
                    guard.when.extend(strict);
                    guard.kind = GuardKind::Strict;
                }
                None if mode == GuardMode::Strict => {
                    return Err(GuardError::new(
                        GuardErrorKind::NotStrict,
                        "the strict guard cannot run: the lease was not granted by the store in this cluster",
                    ));
                }
                None => {}
            }
        }
        Ok(guard)
    }

    /// A guard for a write without a lease, which passes only where nobody has ever shown a token.
    #[must_use]
    pub fn unfenced(&self, key: &MarkKey) -> EtcdGuard {
        let mark = self.keys.mark(key);
        EtcdGuard {
            kind: GuardKind::Plain,
            key: key.clone(),
            lease: None,
            when: vec![Compare::version(mark.clone(), CompareOp::Equal, 0)],
            then: Vec::new(),
            look: TxnOp::get(mark, None),
        }
    }

    /// What holds as long as the lease stands; `None` where its store is not here.
    async fn strict(
        &self,
        client: &mut Client,
        lease: &LeaseRef,
    ) -> Result<Option<Vec<Compare>>, GuardError> {
        let wanted = Wanted { resource: &lease.resource, owner: None, once: None, good: false };
        let answer = client.txn(Txn::new().and_then(wanted.ops(&self.keys))).await.map_err(failed)?;
        let reading = match wanted.read(&self.keys, &answer) {
            Err(error) if error.kind() == crate::ErrorKind::NotSetUp => return Ok(None),
            other => other.map_err(damaged)?,
        };
        let lost = |how: &str| {
            let message = format!("the lease on {:?} under token {} {how}", lease.resource, lease.token);
            Err(GuardError::new(GuardErrorKind::Lost, message))
        };
        let epoch = reading.epochal.standing.epoch;
        if lease.epoch.is_some_and(|believed| believed != epoch) {
            // Of a store elsewhere, or of this one before it lost history.
            let held = reading.state.as_ref().is_some_and(|state| state.is_of(lease, reading.revision));
            return if held { lost("is of a former epoch") } else { Ok(None) };
        }
        match &reading.state {
            Some(state) if state.is_of(lease, reading.revision) && reading.live.is_some() => {}
            Some(_) | None if lease.epoch.is_none() => return Ok(None),
            _ => return lost("has run out, or was given back, revoked or replaced"),
        }
        let mut all = vec![
            Compare::mod_revision(self.keys.standing(), CompareOp::Equal, reading.epochal.revision),
            Compare::mod_revision(self.keys.state(&lease.resource), CompareOp::Equal, reading.revision),
        ];
        all.push(Compare::version(self.keys.live(&lease.resource), CompareOp::Greater, 0));
        Ok(Some(all))
    }

    /// The mark, if there is one.
    ///
    /// # Errors
    ///
    /// [`Database`](GuardErrorKind::Database).
    pub async fn look(&self, client: &mut Client, key: &MarkKey) -> Result<Option<Mark>, GuardError> {
        let ops = [self.keys.mark(key), self.keys.mark_time(key)].map(|key| TxnOp::get(key, None));
        let answer = client.txn(Txn::new().and_then(ops)).await.map_err(failed)?;
        let mut found = gets(&answer).into_iter().map(|mut got| got.take_kvs().into_iter().next());
        let (Some(Some(mark)), at) = (found.next(), found.next().flatten()) else { return Ok(None) };
        let (token, owner) = read_mark(&mark).map_err(damaged)?;
        let at = at.and_then(|kv| kv.value_str().ok()?.parse().ok()).unwrap_or(0);
        let at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_micros(at));
        Ok(Some(Mark { key: key.clone(), token, owner, at: at.unwrap_or(SystemTime::UNIX_EPOCH) }))
    }

    /// Sets a mark back, below tokens that it has seen, and writes that down with the reason, beside the mark (`etcdctl get`
    /// shows it below `!/`). Without a token the mark is removed. For an operator.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`](GuardErrorKind::OutOfRange), [`Database`](GuardErrorKind::Database).
    pub async fn reset(
        &self,
        client: &mut Client,
        key: &MarkKey,
        to: Option<FencingToken>,
        reason: &str,
    ) -> Result<(), GuardError> {
        to.map_or(Ok(()), believed)?;
        let mark = self.keys.mark(key);
        let set = match to {
            // Of nobody: the next holder's own is above it.
            Some(token) => TxnOp::put(mark, write_mark(token, OwnerId::new(0)), None),
            None => TxnOp::delete(mark, None),
        };
        let note = TxnOp::put(self.keys.mark_reset(key), format!("{} {reason}", now()), None);
        client.txn(Txn::new().and_then([set, note])).await.map_err(failed).map(drop)
    }
}

impl EtcdGuard {
    /// Which one it is.
    #[must_use]
    pub const fn kind(&self) -> GuardKind {
        self.kind
    }

    /// What the transaction has to compare, for one that compares more.
    #[must_use]
    pub fn compares(&self) -> Vec<Compare> {
        self.when.clone()
    }

    /// What the transaction has to do first, for one that is put together by hand: the mark is written every time.
    #[must_use]
    pub fn operations(&self) -> Vec<TxnOp> {
        self.then.clone()
    }

    /// The guarded transaction of these operations.
    #[must_use]
    pub fn txn(&self, operations: impl IntoIterator<Item = TxnOp>) -> Txn {
        let then: Vec<_> = self.then.iter().cloned().chain(operations).collect();
        Txn::new().when(self.compares()).and_then(then).or_else([self.look.clone()])
    }

    /// What the answer to [such a transaction](Self::txn) means: it was carried out, or nothing of it was.
    ///
    /// # Errors
    ///
    /// Why the guard did not let it pass.
    pub fn passed(&self, answer: &TxnResponse) -> Result<(), GuardError> {
        if answer.succeeded() {
            return Ok(());
        }
        let found = gets(answer).first_mut().and_then(|got| got.take_kvs().into_iter().next());
        let mark = found.as_ref().map(read_mark).transpose().map_err(damaged)?;
        let key = &self.key;
        Err(match (&self.lease, mark) {
            (None, Some((token, _))) => GuardError::new(
                GuardErrorKind::Unfenced,
                format!("{key} is fenced (token {token} was seen): a write has to show its lease"),
            ),
            (Some(lease), Some((highest, first)))
                if highest >= lease.token && (highest, first) != (lease.token, lease.owner) =>
            {
                refusal(key, lease, highest, first)
            }
            (Some(lease), Some((highest, first))) if (highest, first) == (lease.token, lease.owner) => {
                GuardError::new(
                    GuardErrorKind::Lost,
                    format!(
                        "the lease on {key} under token {} has run out, or was given back, revoked or replaced",
                        lease.token
                    ),
                )
            }
            _ => GuardError::new(
                GuardErrorKind::NotSetUp,
                format!(
                    "the mark of {key} has not been advanced to this lease: EtcdFence::advance does that"
                ),
            ),
        })
    }
}

fn check(key: &MarkKey, lease: &LeaseRef) -> Result<(), GuardError> {
    same_resource(key, lease)?;
    // By this machine's clock: the cluster tells none.
    believed(lease.token)
}

fn refusal(key: &MarkKey, lease: &LeaseRef, highest: FencingToken, first: OwnerId) -> GuardError {
    if highest == lease.token { rewound(key, lease, first) } else { below(key, lease.token, highest) }
}

fn failed(error: Error) -> GuardError {
    GuardError::new(GuardErrorKind::Database, format!("the cluster did not carry it out: {error}"))
        .with_source(error)
}

fn damaged(error: StoreError) -> GuardError {
    GuardError::new(GuardErrorKind::Database, error.to_string()).with_source(error)
}

fn now() -> String {
    micros(SystemTime::now()).to_string()
}
