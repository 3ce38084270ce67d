//! What the scripts are asked.

use std::time::Duration;

use lease_machines::{FencingToken, OwnerId};
use redis::Cmd;

use super::script::{self, BUCKET, Keys, Script, bucket_of, call};
use crate::decide::micros;
use crate::{Claim, Ending, Epoch, LeaseRef, ResourceName, WorkResult};

use super::RedisOptions;

/// A request that is ready to be sent, and the bucket that it goes to.
#[derive(Clone)]
pub(super) struct Request {
    pub(super) cmd: Cmd,
    pub(super) bucket: usize,
}

/// Makes requests of one namespace.
#[derive(Clone)]
pub(super) struct Requests {
    pub(super) keys: Keys,
    options: RedisOptions,
}

impl Requests {
    pub(super) fn new(options: &RedisOptions) -> Self {
        Self { keys: Keys::new(&options.namespace), options: options.clone() }
    }

    /// The time to decide by; empty for the server's own.
    pub(super) fn time(&self) -> String {
        self.options.clock.as_ref().map(|clock| micros(clock.wall()).to_string()).unwrap_or_default()
    }

    pub(super) fn decide(
        &self,
        script: &Script,
        how: &str,
        resource: &ResourceName,
        epoch: Option<Epoch>,
    ) -> Request {
        let bucket = bucket_of(resource);
        let mut cmd = call(script, &[self.keys.bucket(bucket)]);
        cmd.arg(how)
            .arg(self.time())
            .arg(epoch.map(|epoch| epoch.to_string()).unwrap_or_default())
            .arg(resource.as_str())
            .arg(self.options.limits.history.unwrap_or(0));
        Request { cmd, bucket }
    }

    pub(super) fn acquire(&self, claim: &Claim, again: bool) -> Request {
        let how = if again { "again" } else { "" };
        let mut request = self.decide(&script::ACQUIRE, how, &claim.resource, claim.epoch);
        request
            .cmd
            .arg(owner(claim.owner))
            .arg(whole_micros(claim.ttl))
            .arg(claim.attempt.to_string())
            .arg(optional(claim.label.as_deref()))
            .arg(optional(claim.identity.as_deref()))
            .arg(optional(claim.once.as_deref()));
        request
    }

    pub(super) fn renew(&self, lease: &LeaseRef, ttl: Duration) -> Request {
        let mut request = self.decide(&script::RENEW, "", &lease.resource, lease.epoch);
        request.cmd.arg(owner(lease.owner)).arg(token(lease.token)).arg(whole_micros(ttl));
        request
    }

    pub(super) fn release(&self, lease: &LeaseRef, ending: &Ending) -> Request {
        let mut request = self.decide(&script::RELEASE, "", &lease.resource, lease.epoch);
        let result = match ending.result {
            WorkResult::Good => "good",
            WorkResult::Failed => "failed",
            WorkResult::Unknown => "",
        };
        request
            .cmd
            .arg(owner(lease.owner))
            .arg(token(lease.token))
            .arg(result)
            .arg(optional(ending.once.as_deref()))
            .arg(whole_micros(ending.at_least));
        request
    }

    pub(super) fn withdraw(&self, resource: &ResourceName, who: OwnerId) -> Request {
        let mut request = self.decide(&script::WITHDRAW, "", resource, None);
        request.cmd.arg(owner(who));
        request
    }

    pub(super) fn revoke(
        &self,
        resource: &ResourceName,
        expect: Option<FencingToken>,
        reason: Option<&str>,
    ) -> Request {
        let mut request = self.decide(&script::REVOKE, "", resource, None);
        request.cmd.arg(expect.map(token).unwrap_or_default()).arg(optional(reason));
        request
    }

    pub(super) fn inspect(&self, resource: &ResourceName) -> Request {
        self.decide(&script::INSPECT, "", resource, None)
    }

    pub(super) fn history(&self, resource: &ResourceName, limit: usize) -> Request {
        let mut request = self.decide(&script::HISTORY, "", resource, None);
        request.cmd.arg(limit.min(i32::MAX as usize));
        request
    }

    fn of_bucket(&self, bucket: usize, what: &str) -> Request {
        let mut cmd = call(&BUCKET, &[self.keys.bucket(bucket)]);
        cmd.arg(what).arg(self.time());
        Request { cmd, bucket }
    }

    pub(super) fn list(&self, bucket: usize, prefix: &str) -> Request {
        let mut request = self.of_bucket(bucket, "list");
        request.cmd.arg(prefix);
        request
    }

    pub(super) fn pools(&self, bucket: usize) -> Request {
        self.of_bucket(bucket, "pools")
    }

    pub(super) fn granted(&self, bucket: usize, who: OwnerId, under: FencingToken) -> Request {
        let mut request = self.of_bucket(bucket, "granted");
        request.cmd.arg(owner(who)).arg(token(under));
        request
    }

    pub(super) fn prune(&self, bucket: usize, older_than: Duration) -> Request {
        let mut request = self.of_bucket(bucket, "prune");
        request.cmd.arg(whole_micros(older_than)).arg(self.keys.past(bucket));
        request
    }

    pub(super) fn raise(&self, bucket: usize, floor: u64) -> Request {
        let mut request = self.of_bucket(bucket, "raise");
        request.cmd.arg(floor.to_string());
        request
    }
}

pub(super) fn owner(owner: OwnerId) -> String {
    format!("{:x}", owner.value())
}

pub(super) fn token(token: FencingToken) -> String {
    token.value().to_string()
}

pub(super) fn whole_micros(time: Duration) -> String {
    time.as_micros().to_string()
}

/// A text that may be missing is told from an empty one by a sign before it.
pub(super) fn optional(text: Option<&str>) -> String {
    text.map(|text| format!("={text}")).unwrap_or_default()
}
