//! Renewing leases.

use std::sync::Arc;
use std::time::Duration;

use super::answer::Reply;
use super::hub::Hub;
use crate::{ErrorKind, LeaseRef, Renewed, StoreError, check};

impl Hub {
    pub(super) async fn renew(
        self: &Arc<Self>,
        lease: &LeaseRef,
        ttl: Duration,
    ) -> Result<Renewed, StoreError> {
        let ttl = check::ttl(ttl, self.options.limits.max_ttl)?;
        let sent = self.now();
        let reply = self.ask(&self.requests.renew(lease, ttl)).await?;
        self.renewed(lease, &reply, sent).await
    }

    async fn renewed(
        self: &Arc<Self>,
        lease: &LeaseRef,
        reply: &Reply,
        sent: Duration,
    ) -> Result<Renewed, StoreError> {
        if reply.rewound {
            self.rewound(lease, reply.epoch).await?;
        }
        let answer = reply.renewed(lease.epoch)?;
        if let Renewed::Renewed(grant) = &answer {
            self.in_time(sent, grant.ttl)?;
        }
        Ok(answer)
    }

    /// One script for each, all in one piece: their rows lie in as many buckets as a cluster would lay apart.
    pub(super) async fn renew_many(
        self: &Arc<Self>,
        leases: Vec<(LeaseRef, Duration)>,
    ) -> Result<Vec<Result<Renewed, StoreError>>, StoreError> {
        let mut answers: Vec<Option<Result<Renewed, StoreError>>> = leases.iter().map(|_| None).collect();
        let (mut asked, mut requests) = (Vec::new(), Vec::new());
        for ((lease, ttl), answer) in leases.iter().zip(&mut answers) {
            match check::ttl(*ttl, self.options.limits.max_ttl) {
                Ok(ttl) => {
                    requests.push(self.requests.renew(lease, ttl));
                    asked.push((lease, answer));
                }
                Err(error) => *answer = Some(Err(error)),
            }
        }
        if !requests.is_empty() {
            let (sent, deadline) = (self.now(), self.link.deadline());
            let live = self.ready(deadline).await?;
            let replies = self.ask_each(&live, requests, deadline).await;
            for ((lease, answer), reply) in asked.into_iter().zip(replies) {
                *answer = Some(match reply {
                    Ok(reply) => self.renewed(lease, &reply, sent).await,
                    Err(error) => Err(error),
                });
            }
        }
        let missing = || {
            Err(StoreError::new(ErrorKind::Unreachable, "the server gave fewer answers than were asked for"))
        };
        Ok(answers.into_iter().map(|answer| answer.unwrap_or_else(missing)).collect())
    }
}
