//! An etcd cluster of one member.
//!
//! Its wall clock is not stepped: no program can do that to one that asks the kernel itself, as those written in Go do,
//! and its leases do not go by it. What the store's history shows, and the floor of its tokens, are by the clocks of
//! clients, and those are stepped.

use std::sync::Mutex;

use etcd_client::{Client, Compare, CompareOp, GetOptions, Txn, TxnOp, TxnOpResponse};
use lease_machines_store::{EtcdFence, EtcdOptions, GuardError, GuardMode, LeaseRef, MarkKey};
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::database::{Database, proxies, unknown};
use super::{Engine, Job, Later, PATIENCE, REMEMBERED, Server, TIMEOUT, refused};
use crate::history::{Answer, Written, now};
use crate::proxy::{Proxy, Wire};
use crate::random::Random;
use crate::record::Recorder;
use crate::servers::clock::WallClock;
use crate::servers::etcd::EtcdServer;
use crate::servers::guard::Guarded;

/// Etcd grants no lease for less than one and a half of its elections: with these, for one second and more.
const BRISK: &[&str] = &["--heartbeat-interval", "50", "--election-timeout", "500"];

pub(super) struct Etcd {
    server: Running,
    proxies: Vec<Proxy>,
    version: String,
    port: u16,
    clock: WallClock,
    /// Where that one is.
    _folder: Guarded,
}

struct Running(Mutex<EtcdServer>);

impl Etcd {
    pub(super) fn start(random: Random, recorder: &Recorder) -> Result<Self, String> {
        let folder = Guarded::folder("clock");
        let clock = WallClock::new(folder.path().to_owned())?;
        let server = EtcdServer::start_with(BRISK);
        let port = server.port;
        lease_machines_store::migrate(&url(port)).map_err(|error| error.to_string())?;
        let version = Handle::current()
            .block_on(async { connect(&place(port)).await?.status().await })
            .map_err(|error| error.to_string())?;
        Ok(Self {
            server: Running(Mutex::new(server)),
            // Requests share a connection there, and are not told apart: none is doubled.
            proxies: proxies(Wire::Other, false, port, random, recorder)?,
            version: format!("etcd {}", version.version()),
            port,
            clock,
            _folder: folder,
        })
    }
}

fn url(port: u16) -> String {
    format!("etcd://127.0.0.1:{port}?timeout={TIMEOUT}&history={REMEMBERED}")
}

fn place(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

async fn connect(place: &str) -> Result<Client, etcd_client::Error> {
    Client::connect([place], None).await
}

impl Engine for Etcd {
    fn version(&self) -> String {
        self.version.clone()
    }

    fn url(&self) -> String {
        url(self.proxies[0].port)
    }

    fn plain_url(&self) -> String {
        url(self.port)
    }

    fn second(&self, url: &str) -> String {
        url.replace('?', "/second?")
    }

    fn place(&self) -> String {
        place(self.proxies[1].port)
    }

    fn written(&self) -> Later<'_, Result<Vec<Written>, String>> {
        Box::pin(async move {
            let read = async {
                let mut client = connect(&place(self.port)).await?;
                client.get("journal/", Some(GetOptions::new().with_prefix())).await
            };
            let found = read.await.map_err(|error| error.to_string())?;
            let written = found.kvs().iter().filter_map(|kv| {
                let (resource, n) = kv.key_str().ok()?.strip_prefix("journal/")?.split_once('/')?;
                let (token, id) = kv.value_str().ok()?.split_once(' ')?;
                Some(Written {
                    resource: resource.to_owned(),
                    n: n.parse().ok()?,
                    token: token.parse().ok()?,
                    id: id.parse().ok()?,
                })
            });
            Ok(written.collect())
        })
    }

    fn server(&self) -> Option<&dyn Server> {
        Some(&self.server)
    }

    fn proxies(&self) -> &[Proxy] {
        &self.proxies
    }

    fn variables(&self) -> Vec<String> {
        self.clock.variables()
    }

    fn steps_clients(&self) -> bool {
        true
    }

    fn set_client_clock(&self, ahead: i64) {
        self.clock.set(ahead);
    }

    /// By the clocks of clients.
    fn remembers_times(&self) -> bool {
        false
    }

    fn ends_by_leases(&self) -> bool {
        true
    }

    /// Each is the cluster's revision.
    fn is_dense(&self) -> bool {
        false
    }
}

impl Server for Running {
    fn kill(&self) {
        self.0.lock().unwrap().kill();
    }

    fn restart(&self) {
        self.0.lock().unwrap().restart();
    }

    fn freeze(&self) {
        self.0.lock().unwrap().freeze();
    }

    fn thaw(&self) {
        self.0.lock().unwrap().thaw();
    }

    fn set_clock(&self, _ahead: i64) {}
}

impl Database for Etcd {
    type Connection = Client;

    const WAYS: &'static [(&'static str, bool)] = &[("transaction", true)];

    async fn connect(place: &str) -> Result<Client, String> {
        connect(place).await.map_err(|error| error.to_string())
    }

    async fn write(client: &mut Client, job: &Job) -> (Option<u64>, Answer) {
        match timeout(PATIENCE, attempt(client, job)).await {
            Ok(attempt) => attempt.unwrap_or_else(|error| refused(&error)),
            Err(_) => (None, Answer::Unknown("no answer".to_owned())),
        }
    }

    async fn advance(client: &mut Client, key: &MarkKey, lease: &LeaseRef) -> Result<(), Answer> {
        fence().advance(client, key, lease).await.map_err(|error| unknown(refused(&error).1))
    }
}

fn fence() -> EtcdFence {
    EtcdFence::new(EtcdOptions::NAMESPACE)
}

/// The write, once the mark is raised and the guard made.
async fn attempt(client: &mut Client, job: &Job) -> Result<(Option<u64>, Answer), GuardError> {
    let fence = fence();
    fence.advance(client, &job.key, &job.lease).await?;
    let mode = if job.strict { GuardMode::Strict } else { GuardMode::Plain };
    let guard = fence.guard(client, &job.key, &job.lease, mode).await?;
    let count = format!("count/{}", job.key.resource.as_str());
    let found = match client.get(count.as_str(), None).await {
        Ok(found) => found,
        Err(error) => return Ok((None, Answer::NotDone(error.to_string()))),
    };
    let (n, revision) = found.kvs().first().map_or((0, 0), |kv| {
        (kv.value_str().unwrap_or_default().parse::<u64>().unwrap_or(0), kv.mod_revision())
    });
    // Inside the guarded one, so that a guard which passes and a count that has changed are told apart.
    let unchanged = Compare::mod_revision(count.as_str(), CompareOp::Equal, revision);
    let (row, next) = (format!("journal/{}/{}", job.key.resource.as_str(), n + 1), (n + 1).to_string());
    let puts =
        [TxnOp::put(count, next, None), TxnOp::put(row, format!("{} {}", job.lease.token, job.id), None)];
    let counted = TxnOp::txn(Txn::new().when([unchanged]).and_then(puts));
    let answer = match client.txn(guard.txn([counted])).await {
        Ok(answer) => answer,
        Err(error) => return Ok((None, Answer::Unknown(error.to_string()))),
    };
    guard.passed(&answer)?;
    let counted = answer.op_responses().into_iter().any(|op| match op {
        TxnOpResponse::Txn(inner) => inner.succeeded(),
        _ => false,
    });
    let others = || Answer::NotDone("another write came between".to_owned());
    Ok((Some(now()), if counted { Answer::Passed } else { others() }))
}
