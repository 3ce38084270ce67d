//! Renewing: one lease, or all of a process in one statement.

use std::time::Duration;

use tokio::time::Instant;

use super::answer::{self, Told, shown};
use super::calls::{self, Call, bits, bytes, number, some_bits, span, truth};
use super::hub::Hub;
use crate::{Epoch, Grant, LeaseRef, Renewed, StoreError};

impl Hub {
    pub(super) async fn renew(
        &self,
        until: Instant,
        lease: &LeaseRef,
        ttl: Duration,
    ) -> Result<Renewed, StoreError> {
        let sent = self.target.options.here.now();
        let parameters = || {
            vec![
                bytes(lease.resource.as_str()),
                bits(lease.owner.value()),
                number(shown(lease)),
                span(ttl),
                some_bits(lease.epoch.map(Epoch::value)),
                truth(false),
                calls::small(self.target.options.keep()),
            ]
        };
        let answer = self.decide_lease(until, Call::Renew, lease, &parameters).await?.renewed()?;
        if let Renewed::Renewed(grant) = &answer {
            self.in_time(sent, grant.ttl)?;
        }
        Ok(answer)
    }

    pub(super) async fn renew_many(
        &self,
        leases: &[(LeaseRef, Duration)],
    ) -> Result<Vec<Result<Renewed, StoreError>>, StoreError> {
        if leases.is_empty() {
            return Ok(Vec::new());
        }
        let (until, sent) = (self.until(), self.target.options.here.now());
        // The function does in one go what it is asked for in the order of names.
        let mut order: Vec<usize> = (0..leases.len()).collect();
        order.sort_by_key(|&place| leases.get(place).map(|(lease, _)| lease.resource.as_str()));
        let sorted = || order.iter().filter_map(|&place| leases.get(place));
        let each =
            |of: fn(&LeaseRef, Duration) -> i64| sorted().map(|(lease, ttl)| of(lease, *ttl)).collect();
        let parameters = vec![
            calls::names(sorted().map(|(lease, _)| lease.resource.as_str().as_bytes().to_vec()).collect()),
            calls::numbers(each(|lease, _| lease.owner.value() as i64)),
            calls::numbers(each(|lease, _| shown(lease))),
            calls::numbers(each(|_, ttl| calls::micros(ttl))),
            calls::some_numbers(
                sorted().map(|(lease, _)| lease.epoch.map(|epoch| epoch.value() as i64)).collect(),
            ),
            calls::small(self.target.options.keep()),
        ];
        let rows = self.ask(until, Call::RenewMany, parameters).await?;
        let mut answers: Vec<Option<Result<Renewed, StoreError>>> = leases.iter().map(|_| None).collect();
        for row in rows {
            let told = Told::read(row, &self.target.place)?;
            for (asked, remains) in told.places()? {
                let place = order.get(asked).copied().unwrap_or(usize::MAX);
                let (Some(slot), Some((lease, ttl))) = (answers.get_mut(place), leases.get(place)) else {
                    continue;
                };
                // What was locked, and whatever else one statement for all cannot do, is asked for alone.
                *slot = Some(match remains {
                    Some(left) => {
                        let grant = Grant::new(lease.token, left, told.epoch()?);
                        self.in_time(sent, grant.ttl).map(|()| Renewed::Renewed(grant))
                    }
                    None if told.code == "locked" || told.is_lost() || told.is_rewound()? => {
                        self.renew(until, lease, *ttl).await
                    }
                    None => match told.renewed() {
                        Ok(Renewed::Renewed(grant)) => {
                            self.in_time(sent, grant.ttl).map(|()| Renewed::Renewed(grant))
                        }
                        other => other,
                    },
                });
            }
        }
        let missing = || Err(answer::nonsense(&self.target.place, "fewer answers than renewals"));
        Ok(answers.into_iter().map(|answer| answer.unwrap_or_else(missing)).collect())
    }
}
