//! What all calls of a store share: sending a request, and noticing that the server has lost history.

use std::sync::Arc;
use std::time::Duration;

use lease_machines::{FencingToken, OwnerId};
use redis::Value;
use tokio::time::Instant;

use super::answer::{Reply, changed_meanwhile, not_set_up, text};
use super::link::{self, Link, Live, Standing, Target};
use super::request::{Request, Requests, whole_micros};
use super::script::{self, BUCKETS, EPOCH};
use super::seen::Seen;
use super::{RedisOptions, server::Server};
use crate::decide::{EARLIEST_MICROS, LEAP};
use crate::server::{Here, each};
use crate::{Epoch, ErrorKind, LeaseRef, Migration, Opening, StoreError, Undecided};

/// Buckets that are asked at once, where all are: others get their turn in between.
const AT_ONCE: usize = 64;

pub(super) struct Hub {
    pub(super) link: Link,
    pub(super) requests: Requests,
    pub(super) options: RedisOptions,
    /// What the time between a request and its answer is counted by.
    here: Here,
    seen: Arc<Seen>,
}

impl Hub {
    pub(super) fn new(target: Target, options: RedisOptions) -> Result<Self, StoreError> {
        options.check()?;
        let seen = Arc::new(Seen::new());
        Ok(Self {
            link: Link::new(target, &options, Arc::clone(&seen)),
            requests: Requests::new(&options),
            here: options.clock.clone().map_or_else(Here::default, Here::new),
            options,
            seen,
        })
    }

    /// The connection to a server that goes on with the store's history; where it does not, a new epoch is opened first.
    pub(super) async fn ready(&self, deadline: Instant) -> Result<Live, StoreError> {
        const TRIES: u32 = 3;
        for _ in 0..TRIES {
            let live = self.link.live(deadline).await?;
            let Standing::Lost(epoch) = live.standing else { return Ok(live) };
            // Whatever becomes of that: what the caller wants was not asked.
            let opened = self.open_epoch(&live, &Opening::new(epoch), deadline).await;
            self.link.forget(&live).await;
            opened.map_err(StoreError::nothing_changed)?;
        }
        Err(StoreError::new(
            ErrorKind::Unreachable,
            format!("{} was restarted or promoted again and again", self.link.target),
        )
        .nothing_changed())
    }

    pub(super) fn now(&self) -> Duration {
        self.here.now()
    }

    /// Whether what was asked at `sent` still lasts.
    pub(super) fn in_time(&self, sent: Duration, ttl: Duration) -> Result<(), StoreError> {
        self.here.in_time(sent, ttl, &self.link.target)
    }

    /// One request, and its answer.
    pub(super) async fn ask(&self, request: &Request) -> Result<Reply, StoreError> {
        let deadline = self.link.deadline();
        let live = self.ready(deadline).await?;
        self.ask_on(&live, request, deadline).await
    }

    pub(super) async fn ask_on(
        &self,
        live: &Live,
        request: &Request,
        deadline: Instant,
    ) -> Result<Reply, StoreError> {
        let before = self.seen.before(request.bucket);
        let reply = Reply::read(self.link.ask(live, &request.cmd, deadline).await?)?;
        if self.seen.has_lost(request.bucket, before, &reply) {
            let new = self.open_epoch(live, &Opening::new(reply.epoch), deadline).await?;
            return Err(StoreError::new_epoch(reply.epoch, new));
        }
        Ok(reply)
    }

    /// Asks for each of many requests; each has its own answer.
    pub(super) async fn ask_each(
        self: &Arc<Self>,
        live: &Live,
        requests: Vec<Request>,
        deadline: Instant,
    ) -> Vec<Result<Reply, StoreError>> {
        let ask = |request: Request| {
            let (hub, live) = (Arc::clone(self), live.clone());
            async move { hub.ask_on(&live, &request, deadline).await }
        };
        each(requests.into_iter().map(ask)).await
    }

    /// Asks every bucket, some at a time, and hands the answers on: of those that are asked with one that fails, too. Where
    /// several fail, it is told of the one after which least is known.
    pub(super) async fn ask_all(
        self: &Arc<Self>,
        request: impl Fn(usize) -> Request,
        mut take: impl FnMut(Reply) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        for first in (0..BUCKETS).step_by(AT_ONCE) {
            let deadline = self.link.deadline();
            let live = self.ready(deadline).await?;
            let some = (first..(first + AT_ONCE).min(BUCKETS)).map(&request).collect();
            let mut heard = Ok(());
            for answer in self.ask_each(&live, some, deadline).await {
                let answer = answer.and_then(&mut take);
                let least = answer.as_ref().is_err_and(|error| error.undecided() == Undecided::Unknown);
                if heard.is_ok() || least {
                    heard = answer;
                }
            }
            heard?;
        }
        Ok(())
    }

    /// A caller has shown a token that its resource never had. Owners are drawn for every hold, so that one which is known
    /// under another name was not lost: whoever shows it has the name wrong.
    pub(super) async fn rewound(self: &Arc<Self>, lease: &LeaseRef, epoch: Epoch) -> Result<(), StoreError> {
        if self.has_granted(lease.owner, lease.token).await? {
            return Ok(());
        }
        let deadline = self.link.deadline();
        let live = self.ready(deadline).await?;
        let above = FencingToken::new(lease.token.value().saturating_add(LEAP).min(i64::MAX as u64));
        let opening = Opening::new(epoch).with_tokens_above(above);
        self.open_epoch(&live, &opening, deadline).await.map(drop)
    }

    async fn has_granted(self: &Arc<Self>, owner: OwnerId, token: FencingToken) -> Result<bool, StoreError> {
        let mut granted = false;
        let asked = self.ask_all(
            |bucket| self.requests.granted(bucket, owner, token),
            |reply| reply.yes().map(|yes| granted |= yes),
        );
        asked.await.map(|()| granted)
    }

    pub(super) async fn epoch(&self) -> Result<Epoch, StoreError> {
        let deadline = self.link.deadline();
        let live = self.ready(deadline).await?;
        let mut cmd = redis::cmd("HGET");
        cmd.arg(self.requests.keys.bucket(0)).arg("e");
        let found = self.link.ask(&live, &cmd, deadline).await.map_err(StoreError::nothing_changed)?;
        text(&found).and_then(|epoch| epoch.parse().ok()).ok_or_else(not_set_up)
    }

    /// Opens an epoch, and returns the one that the store is in afterwards.
    pub(super) async fn open_epoch(
        &self,
        live: &Live,
        opening: &Opening,
        deadline: Instant,
    ) -> Result<Epoch, StoreError> {
        let above = opening.above.map_or(0, FencingToken::value);
        let args = [
            opening.instead_of.to_string(),
            above.to_string(),
            u8::from(opening.old_holders_are_dead).to_string(),
            self.seen.epochs_after(opening.instead_of).to_string(),
        ];
        let (_, epoch) = self.begin(live, "open", &args, deadline).await?;
        Ok(epoch)
    }

    pub(super) async fn migrate(&self) -> Result<Migration, StoreError> {
        let deadline = self.link.deadline();
        let live = self.link.live(deadline).await?;
        let (opened, _) = self.begin(&live, "migrate", &[], deadline).await?;
        Ok(if opened { Migration::SetUp } else { Migration::UpToDate })
    }

    async fn begin(
        &self,
        live: &Live,
        what: &str,
        args: &[String],
        deadline: Instant,
    ) -> Result<(bool, Epoch), StoreError> {
        let keys: Vec<String> = self.requests.keys.all().collect();
        let server: &Server = &live.server;
        let mut cmd = script::call(&EPOCH, &keys);
        cmd.arg(what)
            .arg(self.requests.time())
            .arg(Epoch::draw()?.to_string())
            .arg(live.stamp.version)
            .arg(EARLIEST_MICROS)
            .arg(whole_micros(self.options.limits.max_ttl))
            .arg(&server.run)
            .arg(&server.place)
            .arg(&server.former)
            .arg(u8::from(server.is_durable()))
            .arg(live.stamp.usable_by)
            .arg(server.name());
        for arg in args {
            cmd.arg(arg);
        }
        let answer = self.link.ask(live, &cmd, deadline).await?;
        let Value::Array(parts) = &answer else { return Err(not_set_up()) };
        let part = |index: usize| parts.get(index).and_then(text).unwrap_or_default();
        match part(0).as_str() {
            word @ ("opened" | "there") => {
                let epoch = part(1).parse().map_err(|_| not_set_up())?;
                let run = link::run(&answer, server.name());
                // One that is found to have lost something goes on with nothing that was told.
                if run.is_some() && (word == "opened" || live.standing == Standing::Kept) {
                    self.seen.is_under(run);
                }
                Ok((word == "opened", epoch))
            }
            "clock" => Err(StoreError::new(
                ErrorKind::Configuration,
                format!(
                    "{}: the server's clock stands at {} µs since 1970, before this program was made: set it right",
                    self.link.target,
                    part(1)
                ),
            )),
            // The next call looks at it anew.
            "version" => {
                self.link.forget(live).await;
                Err(changed_meanwhile(&part(1)))
            }
            _ => Err(not_set_up()),
        }
    }
}
