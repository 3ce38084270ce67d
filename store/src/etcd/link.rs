//! The connection: to one member at a time, given up as soon as it fails, and made again to the next.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use std::{fmt, fs};

use etcd_client::{Certificate, Client, ConnectOptions, Error, TlsOptions, Txn, TxnResponse};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

use super::url::{Members, authority};
use super::{EtcdOptions, failure};
use crate::url::wrong;
use crate::{ErrorKind, StoreError};

/// The cluster as people know it: never with a user or a password.
#[derive(Clone, Debug)]
pub(super) struct Place(Arc<str>);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

pub(super) struct Link {
    pub(super) place: Place,
    timeout: Duration,
    target: Target,
    live: Mutex<Option<Live>>,
    next: AtomicUsize,
}

/// Where connections come from.
enum Target {
    Members {
        addresses: Vec<String>,
        options: Box<ConnectOptions>,
    },
    /// The user's own, which connects by itself.
    Client(Box<Client>),
}

#[derive(Clone)]
struct Live {
    client: Client,
    over: Arc<AtomicBool>,
}

impl Link {
    pub(super) fn to(members: &Members, options: &EtcdOptions) -> Result<Self, StoreError> {
        let hosts: Vec<String> = members.hosts.iter().map(|(host, port)| authority(host, *port)).collect();
        let mut connect = ConnectOptions::new().with_connect_timeout(options.limits.timeout);
        if let Some((user, password)) = &members.login {
            connect = connect.with_user(user, password).with_auto_token_refresh(true);
        }
        if options.tls {
            connect = connect.with_tls(match &options.authorities {
                None => TlsOptions::new().with_native_roots(),
                Some(file) => {
                    let pem = fs::read(file).map_err(|error| {
                        wrong(format!("cafile {}: {error}; expected certificates in PEM", file.display()))
                    })?;
                    TlsOptions::new().ca_certificate(Certificate::from_pem(pem))
                }
            });
        }
        let scheme = if options.tls { "https" } else { "http" };
        let addresses = hosts.iter().map(|host| format!("{scheme}://{host}")).collect();
        Ok(Self {
            place: Place(format!("etcd://{}/{}", hosts.join(","), options.namespace).into()),
            timeout: options.limits.timeout,
            target: Target::Members { addresses, options: Box::new(connect) },
            live: Mutex::new(None),
            next: AtomicUsize::new(0),
        })
    }

    pub(super) fn of(client: Client, options: &EtcdOptions) -> Self {
        Self {
            place: Place(
                format!("etcd, by a client of the program's own, namespace {}", options.namespace).into(),
            ),
            timeout: options.limits.timeout,
            target: Target::Client(Box::new(client)),
            live: Mutex::new(None),
            next: AtomicUsize::new(0),
        }
    }

    /// When a request that begins now has to have ended.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.timeout
    }

    pub(super) async fn transact(&self, txn: Txn, deadline: Instant) -> Result<TxnResponse, StoreError> {
        self.call(deadline, |mut client| async move { client.txn(txn).await }).await
    }

    /// Its number, and what the server granted.
    pub(super) async fn grant_lease(
        &self,
        seconds: i64,
        deadline: Instant,
    ) -> Result<(i64, Duration), StoreError> {
        let granted =
            self.call(deadline, |mut client| async move { client.lease_grant(seconds, None).await });
        // Nothing stands on a lease that nobody has heard of.
        let granted = granted.await.map_err(StoreError::nothing_changed)?;
        let ttl = u64::try_from(granted.ttl()).unwrap_or(0);
        Ok((granted.id(), Duration::from_secs(ttl)))
    }

    pub(super) async fn revoke_lease(&self, id: i64, deadline: Instant) -> Result<(), StoreError> {
        self.call(deadline, |mut client| async move { client.lease_revoke(id).await.map(drop) }).await
    }

    /// In whole seconds, rounded down; `None` for one that is not there.
    pub(super) async fn lease_left(
        &self,
        id: i64,
        deadline: Instant,
    ) -> Result<Option<Duration>, StoreError> {
        let found = self
            .call(deadline, |mut client| async move { client.lease_time_to_live(id, None).await })
            .await
            .map_err(StoreError::nothing_changed)?;
        Ok(u64::try_from(found.ttl()).ok().map(Duration::from_secs))
    }

    /// Has one request carried out.
    pub(super) async fn call<T, F>(
        &self,
        deadline: Instant,
        request: impl FnOnce(Client) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let live = match timeout_at(deadline, self.live()).await {
            Ok(live) => live.map_err(StoreError::nothing_changed)?,
            Err(_) => return Err(self.late("could not be connected to").nothing_changed()),
        };
        match timeout_at(deadline, request(live.client)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => {
                if failure::ends_connection(&error) {
                    live.over.store(true, Ordering::Release);
                }
                Err(failure::of_call(&self.place, error))
            }
            Err(_) => {
                live.over.store(true, Ordering::Release);
                Err(self.late("did not answer"))
            }
        }
    }

    fn late(&self, what: &str) -> StoreError {
        let message = format!("{} {what} within {:?}", self.place, self.timeout);
        StoreError::new(ErrorKind::Unreachable, message)
    }

    async fn live(&self) -> Result<Live, StoreError> {
        let mut kept = self.live.lock().await;
        if let Some(live) = kept.as_ref().filter(|live| !live.over.load(Ordering::Acquire)) {
            return Ok(live.clone());
        }
        let live = Live { client: self.connect().await?, over: Arc::new(AtomicBool::new(false)) };
        *kept = Some(live.clone());
        Ok(live)
    }

    /// Connects to the next member that says what it is.
    async fn connect(&self) -> Result<Client, StoreError> {
        let (addresses, options) = match &self.target {
            Target::Client(client) => return Ok(client.as_ref().clone()),
            Target::Members { addresses, options } => (addresses, options),
        };
        let mut failed = None;
        for _ in addresses {
            let next = self.next.fetch_add(1, Ordering::Relaxed) % addresses.len().max(1);
            let Some(address) = addresses.get(next) else { continue };
            // Others may answer where this one does not.
            let share = self.timeout / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
            let connecting = async {
                let mut client = Client::connect([address], Some(options.as_ref().clone())).await?;
                client.status().await?;
                Ok(client)
            };
            match timeout_at(Instant::now() + share, connecting).await {
                Ok(Ok(client)) => return Ok(client),
                Ok(Err(error)) => failed = Some(failure::of_call(&self.place, error)),
                Err(_) => failed = Some(self.late("could not be connected to")),
            }
        }
        Err(failed.unwrap_or_else(|| self.late("could not be connected to")))
    }
}
