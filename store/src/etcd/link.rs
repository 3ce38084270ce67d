//! The connection: to one member at a time, given up as soon as it fails, and made again to the next.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use std::{fmt, fs};

use etcd_client::{Certificate, Client, ConnectOptions, Error, TlsOptions, Txn, TxnResponse};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout, timeout_at};

use super::url::{Members, authority};
use super::{EtcdOptions, failure};
use crate::server::{Login, Passwords};
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
    connect_timeout: Duration,
    target: Target,
    live: Mutex<Option<Live>>,
    next: AtomicUsize,
}

/// Where connections come from.
enum Target {
    Members {
        addresses: Vec<String>,
        options: Box<ConnectOptions>,
        login: Option<Login>,
        passwords: Option<Passwords>,
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
        let mut connect = ConnectOptions::new().with_connect_timeout(options.connect_timeout);
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
            connect_timeout: options.connect_timeout,
            target: Target::Members {
                addresses,
                options: Box::new(connect),
                login: members.login.clone(),
                passwords: options.passwords.clone(),
            },
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
            connect_timeout: options.connect_timeout,
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
        let ask = |mut client: Client| {
            let txn = txn.clone();
            async move { client.txn(txn).await }
        };
        self.call(deadline, ask).await
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

    /// The roles that the user has, as far as that is to be known.
    pub(super) async fn roles(&self, deadline: Instant) -> Vec<String> {
        let Target::Members { login: Some(Login { user, .. }), .. } = &self.target else { return Vec::new() };
        let found = self
            .call(deadline, |mut client| {
                let user = user.clone();
                async move { client.user_get(user).await }
            })
            .await;
        found.map(|found| found.roles().to_vec()).unwrap_or_default()
    }

    /// Has one request carried out. Where its login is over, or older than the last change of the cluster's users and roles,
    /// nothing was done: it is asked once more under a new one.
    pub(super) async fn call<T, F>(
        &self,
        deadline: Instant,
        request: impl Fn(Client) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let told = match self.send(deadline, &request).await? {
            Err(error) if failure::login_is_over(&error) => {
                self.log_in_anew(deadline).await?;
                self.send(deadline, &request).await?
            }
            told => told,
        };
        told.map_err(|error| failure::of_call(&self.place, error))
    }

    /// Has one request carried out that cannot be asked twice.
    pub(super) async fn call_once<T, F>(
        &self,
        deadline: Instant,
        request: impl FnOnce(Client) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, Error>>,
    {
        self.send(deadline, request).await?.map_err(|error| failure::of_call(&self.place, error))
    }

    /// What is connected to from here on logs in when it connects; the program's own client keeps its connection.
    async fn log_in_anew(&self, deadline: Instant) -> Result<(), StoreError> {
        let Target::Client(client) = &self.target else { return Ok(()) };
        match timeout_at(deadline, client.refresh_token()).await {
            Ok(refreshed) => {
                refreshed.map_err(|error| failure::of_call(&self.place, error).nothing_changed())
            }
            Err(_) => Err(self.late("could not be logged in to", self.timeout).nothing_changed()),
        }
    }

    async fn send<T, F>(
        &self,
        deadline: Instant,
        request: impl FnOnce(Client) -> F,
    ) -> Result<Result<T, Error>, StoreError>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let live = match timeout_at(deadline, self.live()).await {
            Ok(live) => live.map_err(StoreError::nothing_changed)?,
            Err(_) => return Err(self.late("could not be connected to", self.timeout).nothing_changed()),
        };
        match timeout_at(deadline, request(live.client)).await {
            Ok(told) => {
                let over = |error: &Error| failure::ends_connection(error) || failure::login_is_over(error);
                if told.as_ref().is_err_and(over) {
                    live.over.store(true, Ordering::Release);
                }
                Ok(told)
            }
            Err(_) => {
                live.over.store(true, Ordering::Release);
                Err(self.late("did not answer", self.timeout))
            }
        }
    }

    fn late(&self, what: &str, limit: Duration) -> StoreError {
        StoreError::new(ErrorKind::Unreachable, format!("{} {what} within {limit:?}", self.place))
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
        let (addresses, options, login, passwords) = match &self.target {
            Target::Client(client) => return Ok(client.as_ref().clone()),
            Target::Members { addresses, options, login, passwords } => {
                (addresses, options, login, passwords)
            }
        };
        let mut options = options.as_ref().clone();
        if let Some(Login { user, password }) = login {
            // Whoever cannot be told a password by anybody was refused when the store was opened.
            let password = match passwords {
                Some(passwords) => passwords.ask(&self.place, self.connect_timeout).await?,
                None => password.clone().unwrap_or_default(),
            };
            options = options.with_user(user, password);
        }
        // Others may answer where one does not.
        let share = self.timeout / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
        let limit = share.min(self.connect_timeout);
        let mut failed = None;
        for _ in addresses {
            let next = self.next.fetch_add(1, Ordering::Relaxed) % addresses.len().max(1);
            let Some(address) = addresses.get(next) else { continue };
            let connecting = async {
                let mut client = Client::connect([address], Some(options.clone())).await?;
                client.status().await?;
                Ok(client)
            };
            match timeout(limit, connecting).await {
                Ok(Ok(client)) => return Ok(client),
                Ok(Err(error)) => failed = Some(failure::of_call(&self.place, error)),
                Err(_) => failed = Some(self.late("could not be connected to", limit)),
            }
        }
        Err(failed.unwrap_or_else(|| self.late("could not be connected to", limit)))
    }
}
