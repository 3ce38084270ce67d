//! Renewing: one lease, or all of a process in one statement.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::answer::{self, Told, shown};
use super::calls::{self, Call, Parameter, bits, bytes, number, some_bits, span, truth};
use super::hub::{Hub, one};
use crate::server::each;
use crate::{Epoch, Grant, LeaseRef, Renewed, StoreError};

/// For how long the leases that somebody had locked are waited for, when all others of a call are renewed and have yet to be
/// told: all of them together.
///
/// A keeper gives a try a quarter of the time that its lease has left, which is a sixth of the ttl where it renews after a
/// third of that: 330 ms of 2 s. So the others are told in time, with room for the statement itself; and most of those that
/// lock a row, which are other decisions, have committed by then. What still is locked is *not done*, and asked for again.
const LOCKED: Duration = Duration::from_millis(100);

impl Hub {
    fn renewal(&self, lease: &LeaseRef, ttl: Duration) -> Vec<Parameter> {
        vec![
            bytes(lease.resource.as_str()),
            bits(lease.owner.value()),
            number(shown(lease)),
            span(ttl),
            some_bits(lease.epoch.map(Epoch::value)),
            truth(false),
            calls::small(self.target.options.keep()),
        ]
    }

    /// What was answered, unless the lease was over by then.
    fn renewed(&self, told: &Told, sent: Duration) -> Result<Renewed, StoreError> {
        let answer = told.renewed()?;
        if let Renewed::Renewed(grant) = &answer {
            self.in_time(sent, grant.ttl)?;
        }
        Ok(answer)
    }

    pub(super) async fn renew(
        &self,
        until: Instant,
        lease: &LeaseRef,
        ttl: Duration,
    ) -> Result<Renewed, StoreError> {
        let sent = self.target.options.here.now();
        let parameters = || self.renewal(lease, ttl);
        let told = self.decide_lease(until, Call::Renew, lease, &parameters).await?;
        self.renewed(&told, sent)
    }

    /// The same, for which nobody is waited for beyond `soon`.
    async fn renew_soon(
        &self,
        soon: Instant,
        until: Instant,
        lease: &LeaseRef,
        ttl: Duration,
    ) -> Result<Renewed, StoreError> {
        let sent = self.target.options.here.now();
        let rows = self.ask_soon(soon, until, Call::Renew, self.renewal(lease, ttl)).await?;
        let told = Told::read(one(rows, &self.target.place)?, &self.target.place)?;
        if told.is_lost() || told.is_rewound()? {
            return self.renew(until, lease, ttl).await;
        }
        self.renewed(&told, sent)
    }

    pub(super) async fn renew_many(
        self: Arc<Self>,
        leases: Vec<(LeaseRef, Duration)>,
    ) -> Result<Vec<Result<Renewed, StoreError>>, StoreError> {
        if leases.is_empty() {
            return Ok(Vec::new());
        }
        let (until, sent) = (self.until(), self.target.options.here.now());
        // The function does in one go what it is asked for in the order of names.
        let mut order: Vec<usize> = (0..leases.len()).collect();
        order.sort_by_key(|&place| leases.get(place).map(|(lease, _)| lease.resource.as_str()));
        let rows = self.ask(until, Call::RenewMany, self.renewals(&leases, &order)).await?;
        let mut answers: Vec<Option<Result<Renewed, StoreError>>> = leases.iter().map(|_| None).collect();
        let mut locked = Vec::new();
        for row in rows {
            let told = Told::read(row, &self.target.place)?;
            for (asked, remains) in told.places()? {
                let place = order.get(asked).copied().unwrap_or(usize::MAX);
                let (Some(slot), Some((lease, ttl))) = (answers.get_mut(place), leases.get(place)) else {
                    continue;
                };
                *slot = match remains {
                    Some(left) => {
                        let grant = Grant::new(lease.token, left, told.epoch()?);
                        Some(self.in_time(sent, grant.ttl).map(|()| Renewed::Renewed(grant)))
                    }
                    None if told.code == "locked" => {
                        locked.push((place, lease.clone(), *ttl));
                        continue;
                    }
                    // One statement for all cannot open an epoch.
                    None if told.is_lost() || told.is_rewound()? => {
                        Some(self.renew(until, lease, *ttl).await)
                    }
                    None => Some(self.renewed(&told, sent)),
                };
            }
        }
        for (place, answer) in self.renew_locked(until, locked).await {
            if let Some(slot) = answers.get_mut(place) {
                *slot = Some(answer);
            }
        }
        let missing = || Err(answer::nonsense(&self.target.place, "fewer answers than renewals"));
        Ok(answers.into_iter().map(|answer| answer.unwrap_or_else(missing)).collect())
    }

    fn renewals(&self, leases: &[(LeaseRef, Duration)], order: &[usize]) -> Vec<Parameter> {
        let sorted = || order.iter().filter_map(|&place| leases.get(place));
        let numbers =
            |of: fn(&LeaseRef, Duration) -> i64| sorted().map(|(lease, ttl)| of(lease, *ttl)).collect();
        vec![
            calls::names(sorted().map(|(lease, _)| lease.resource.as_str().as_bytes().to_vec()).collect()),
            calls::numbers(numbers(|lease, _| lease.owner.value() as i64)),
            calls::numbers(numbers(|lease, _| shown(lease))),
            calls::numbers(numbers(|_, ttl| calls::micros(ttl))),
            calls::some_numbers(
                sorted().map(|(lease, _)| lease.epoch.map(|epoch| epoch.value() as i64)).collect(),
            ),
            calls::small(self.target.options.keep()),
        ]
    }

    /// Asks for each alone, for all of them at once, and says which was answered what.
    async fn renew_locked(
        self: &Arc<Self>,
        until: Instant,
        locked: Vec<(usize, LeaseRef, Duration)>,
    ) -> Vec<(usize, Result<Renewed, StoreError>)> {
        let soon = until.min(Instant::now() + LOCKED);
        let places: Vec<usize> = locked.iter().map(|(place, ..)| *place).collect();
        let asked = locked.into_iter().map(|(_, lease, ttl)| {
            let hub = Arc::clone(self);
            async move { hub.renew_soon(soon, until, &lease, ttl).await }
        });
        places.into_iter().zip(each(asked).await).collect()
    }
}
