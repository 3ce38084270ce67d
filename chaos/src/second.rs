//! A second store on the same server, under the same faults: for calls that would end or hide in one store what the first
//! is looked at for. It is pruned, its epochs are replaced, its work is done once, and its leases are held back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lease_machines::{FencingToken, OwnerId};
use lease_machines_store::{
    Acquired, Claim, Ending, Epoch, ErrorKind, LeaseRef, Opening, Released, Renewed, ResourceName, Store,
    StoreError, Undecided, WorkResult,
};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::history::{Act, Deed, Line, Said, now};
use crate::random::Random;
use crate::record::Recorder;

/// How many clients it has.
pub(crate) const CLIENTS: u32 = 4;
/// For how long nothing is granted after an epoch that may have lost leases.
pub(crate) const MAX_TTL: &str = "1s";
const TTLS: [u64; 4] = [20, 100, 400, 1_000];
/// For how long a name of work to be done once is in use.
const GENERATION: u64 = 1_500_000_000;

struct Client {
    random: Random,
    store: Arc<dyn Store>,
    recorder: Recorder,
    began: u64,
    epoch: Option<Epoch>,
}

/// What a client holds.
struct Lease {
    resource: String,
    owner: u64,
    token: u64,
    /// The one that it was granted in, whatever the client has heard of since.
    epoch: Option<Epoch>,
    is_once: bool,
}

/// Lets clients use the store until they are told to stop.
pub(crate) fn start(
    tasks: &mut JoinSet<()>,
    store: &Arc<dyn Store>,
    seed: u64,
    recorder: &Recorder,
    stop: &Arc<AtomicBool>,
) {
    for number in 0..CLIENTS {
        let mut client = Client {
            random: Random::new(seed, 900 + u64::from(number)),
            store: Arc::clone(store),
            recorder: recorder.clone(),
            began: now(),
            epoch: None,
        };
        let stop = Arc::clone(stop);
        tasks.spawn(async move {
            while !stop.load(Ordering::SeqCst) {
                client.once().await;
            }
        });
    }
}

impl Client {
    async fn once(&mut self) {
        if self.epoch.is_none() {
            self.epoch = self.store.epoch().await.ok();
        }
        match self.random.below(100) {
            0..=14 => self.prune().await,
            15..=16 => self.open().await,
            _ => self.hold().await,
        }
        self.pause(20).await;
    }

    async fn pause(&mut self, most: u64) {
        sleep(Duration::from_millis(self.random.below(most))).await;
    }

    async fn hold(&mut self) {
        let is_once = self.random.percent(30);
        let since = now().saturating_sub(self.began);
        let resource = if is_once {
            format!("once-{}-{}", since / GENERATION, self.random.below(3))
        } else {
            format!("again-{}", self.random.below(6))
        };
        let (owner, ttl) = (self.random.next().max(1), self.random.of(&TTLS) * 1_000_000);
        let said = self.act(&resource, Deed::Acquire { owner, ttl, once: is_once }, self.epoch).await;
        let Said::Granted { token, epoch, .. } = said else { return };
        let lease = Lease { resource, owner, token, epoch: Epoch::new(epoch), is_once };
        for _ in 0..self.random.below(3) {
            self.pause(30).await;
            let ttl = self.random.of(&TTLS) * 1_000_000;
            match self.act(&lease.resource, Deed::Renew { owner, token, ttl }, lease.epoch).await {
                Said::Rejected { .. } | Said::NewEpoch { .. } => return,
                _ => {}
            }
        }
        // Some forget it.
        if self.random.percent(85) {
            let is_good = lease.is_once && self.random.percent(70);
            let at_least = if self.random.percent(40) { self.random.of(&TTLS) * 1_000_000 } else { 0 };
            let deed = Deed::Release { owner: lease.owner, token: lease.token, is_good, at_least };
            self.act(&lease.resource, deed.clone(), lease.epoch).await;
            if self.random.percent(20) {
                self.act(&lease.resource, deed, lease.epoch).await;
            }
        }
    }

    async fn prune(&mut self) {
        let older = self.random.of(&[0, 50, 500]) * 1_000_000;
        self.act("", Deed::Prune { older }, None).await;
    }

    async fn open(&mut self) {
        let Some(epoch) = self.epoch else { return };
        let dead = self.random.percent(50);
        self.act("", Deed::Open { instead_of: epoch.value(), dead }, None).await;
    }

    /// Asks, and takes down what is heard.
    async fn act(&mut self, resource: &str, deed: Deed, believed: Option<Epoch>) -> Said {
        let began = now();
        let said = ask(&*self.store, believed, resource, &deed).await.unwrap_or_else(|error| failed(&error));
        match said {
            Said::NewEpoch { current } | Said::Opened { epoch: current } => self.epoch = Epoch::new(current),
            _ => {}
        }
        self.recorder.line(Line::Second(Act {
            resource: resource.to_owned(),
            deed,
            epoch: believed.map_or(0, Epoch::value),
            began,
            ended: now(),
            said: said.clone(),
        }));
        said
    }
}

async fn ask(
    store: &dyn Store,
    epoch: Option<Epoch>,
    resource: &str,
    deed: &Deed,
) -> Result<Said, StoreError> {
    let lease = |owner, token| {
        let token = FencingToken::new(token).unwrap_or(FencingToken::FIRST);
        Ok::<_, StoreError>(LeaseRef::new(ResourceName::new(resource)?, OwnerId::new(owner), token, epoch))
    };
    let nanos = Duration::from_nanos;
    Ok(match *deed {
        Deed::Acquire { owner, ttl, once } => {
            let claim = Claim::new(ResourceName::new(resource)?, OwnerId::new(owner), nanos(ttl));
            let claim = claim.with_epoch(epoch);
            let claim = if once { claim.with_once(resource) } else { claim };
            match store.acquire(claim).await? {
                Acquired::Granted(grant) => Said::Granted {
                    token: grant.token.value(),
                    ttl: length(grant.ttl),
                    epoch: grant.epoch.value(),
                },
                Acquired::AlreadyDone(end) => Said::Done { token: end.token.value() },
                Acquired::Rejected(why) => Said::Rejected { reason: format!("{:?}", why.reason) },
                other => Said::Refused(format!("unexpected: {other:?}")),
            }
        }
        Deed::Renew { owner, token, ttl } => match store.renew(lease(owner, token)?, nanos(ttl)).await? {
            Renewed::Renewed(grant) => Said::Renewed { ttl: length(grant.ttl) },
            Renewed::Rejected(why) => Said::Rejected { reason: format!("{:?}", why.reason) },
            other => Said::Refused(format!("unexpected: {other:?}")),
        },
        Deed::Release { owner, token, is_good, at_least } => {
            let result = if is_good { WorkResult::Good } else { WorkResult::Failed };
            let ending = Ending::new(result)
                .with_once(is_good.then(|| resource.to_owned()))
                .with_at_least(nanos(at_least));
            match store.release(lease(owner, token)?, ending).await? {
                Released::Released => Said::Released,
                Released::Retained(left) => Said::Retained { left: length(left) },
                Released::AlreadyReleased => Said::AlreadyReleased,
                Released::Rejected(why) => Said::Rejected { reason: format!("{:?}", why.reason) },
                other => Said::Refused(format!("unexpected: {other:?}")),
            }
        }
        Deed::Prune { older } => store.prune(nanos(older)).await.map(|_| Said::Pruned)?,
        Deed::Open { instead_of, dead } => {
            let Some(old) = Epoch::new(instead_of) else { return Ok(Said::Refused("no epoch".to_owned())) };
            let opening = Opening::new(old);
            let opening = if dead { opening.with_dead_holders() } else { opening };
            Said::Opened { epoch: store.open_epoch(opening).await?.value() }
        }
    })
}

fn failed(error: &StoreError) -> Said {
    let text = error.to_string();
    match (error.undecided(), error.kind()) {
        (_, ErrorKind::NewEpoch { current }) => Said::NewEpoch { current: current.value() },
        (Undecided::NotDone, _) => Said::NotDone(text),
        (Undecided::Unknown, _) => Said::Unknown(text),
        (Undecided::Refused, kind) => Said::Refused(format!("{kind:?}: {text}")),
    }
}

fn length(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
