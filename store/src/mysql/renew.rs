//! Renewing: one lease, or all of a process in one call.

use std::fmt::Write as _;
use std::time::Duration;

use tokio::time::Instant;

use super::answer::{Reading, nonsense, one, shown, token};
use super::call::{Call, bits, micros, number, some_bits, span, text};
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
                text(lease.resource.as_str()),
                bits(lease.owner.value()),
                number(shown(lease)),
                span(ttl),
                some_bits(lease.epoch.map(Epoch::value)),
                number(self.target.options.keep()),
            ]
        };
        let answer = self.decide_lease(until, Call::Renew, lease, &parameters).await?.renewed()?;
        if let Renewed::Renewed(grant) = &answer {
            self.in_time(sent, grant.ttl)?;
        }
        Ok(answer)
    }

    /// What stands is renewed by one call. What somebody has locked, and what is going to be refused, is asked for alone: it
    /// is not the rule, and its answer has more to say.
    pub(super) async fn renew_many(
        &self,
        leases: &[(LeaseRef, Duration)],
    ) -> Result<Vec<Result<Renewed, StoreError>>, StoreError> {
        if leases.is_empty() {
            return Ok(Vec::new());
        }
        let (until, sent) = (self.until(), self.target.options.here.now());
        let rows = self.ask(until, Call::RenewMany, vec![text(&asked(leases))]).await?;
        let place = &self.target.place;
        let row = Reading::new(one(&rows, place)?, place);
        let (epoch, told) = (row.epoch("epoch")?, row.text("renewed")?.unwrap_or_default());
        let mut answers: Vec<Option<Result<Renewed, StoreError>>> = leases.iter().map(|_| None).collect();
        for entry in told.split_terminator(',') {
            let wrong = || nonsense(place, &format!("a renewal {entry:?}"));
            let (n, left) = entry.split_once(':').ok_or_else(wrong)?;
            let n = n.parse::<usize>().ok().and_then(|n| n.checked_sub(1)).ok_or_else(wrong)?;
            let left = Duration::from_micros(left.parse().map_err(|_| wrong())?);
            let (Some(slot), Some((lease, _))) = (answers.get_mut(n), leases.get(n)) else {
                return Err(wrong());
            };
            let renewed = token(Some(shown(lease))).map(|token| Grant::new(token, left, epoch));
            *slot = Some(match renewed {
                Some(grant) => self.in_time(sent, left).map(|()| Renewed::Renewed(grant)),
                None => Err(wrong()),
            });
        }
        let mut all = Vec::with_capacity(leases.len());
        for (answer, (lease, ttl)) in answers.into_iter().zip(leases) {
            all.push(match answer {
                Some(answer) => answer,
                None => self.renew(until, lease, *ttl).await,
            });
        }
        Ok(all)
    }
}

/// The leases as JSON, every value as text, so that no number passes through a float.
fn asked(leases: &[(LeaseRef, Duration)]) -> String {
    let mut json = String::from("[");
    for (lease, ttl) in leases {
        json.push_str(if json.len() > 1 { ",[\"" } else { "[\"" });
        for byte in lease.resource.as_str().bytes() {
            let _ = write!(json, "{byte:02X}");
        }
        let (owner, token, ttl) = (lease.owner.value() as i64, shown(lease), micros(*ttl));
        let _ = write!(json, "\",\"{owner}\",\"{token}\",\"{ttl}\",");
        match lease.epoch {
            Some(epoch) => drop(write!(json, "\"{}\"]", epoch.value() as i64)),
            None => json.push_str("null]"),
        }
    }
    json.push(']');
    json
}
