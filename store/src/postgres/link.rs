//! One connection.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Config, Error, Row, SimpleQueryMessage, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::answer;
use super::calls::{Call, Calls, Parameter};
use super::failure::{Place, failed, is_too_strict, not_connected};
use super::options::PostgresOptions;
use super::schema;
use crate::owner::random;
use crate::version::Stamp;
use crate::{Epoch, ErrorKind, StoreError};

/// Where connections come from, and what is said over them.
pub(super) struct Target {
    pub(super) config: Config,
    pub(super) options: PostgresOptions,
    pub(super) place: Place,
    pub(super) calls: Calls,
    pub(super) tls: MakeRustlsConnect,
}

/// A connection that serves one request at a time.
pub(super) struct Link {
    client: Client,
    /// Nobody stands between: a statement may be given a name, which stays on this connection.
    direct: bool,
    prepared: Mutex<HashMap<Call, Statement>>,
    /// The session's transactions are stricter than READ COMMITTED.
    strict: AtomicBool,
    /// It was looked over. One that was lent is when it is first used.
    fit: AtomicBool,
    /// The server has answered without the standbys that it was set to wait for.
    unsynced: Arc<AtomicBool>,
    task: Option<AbortHandle>,
}

/// What the server said of itself when it was connected to.
struct Greeting {
    tag: Option<String>,
    found: Stamp,
    epoch: Epoch,
    same_history: bool,
}

impl Target {
    /// How to connect now, with the password of this moment.
    async fn login(&self) -> Result<Config, StoreError> {
        let mut config = self.config.clone();
        if let Some(passwords) = &self.options.passwords {
            config.password(passwords.ask(&self.place, self.options.connect_timeout).await?);
        }
        Ok(config)
    }
}

impl Link {
    /// Connects, and looks whether the server has the tables, in a version that this program knows, and the history that
    /// it had.
    pub(super) async fn connect(target: &Target) -> Result<Self, StoreError> {
        let (mut link, tag) = Self::open(target).await?;
        let told = link.look_over(target).await?;
        link.direct = tag.is_some() && told == tag;
        Ok(link)
    }

    /// The same for one that was lent, once: with what others may have set or begun on it.
    pub(super) async fn make_fit(&self, target: &Target) -> Result<(), StoreError> {
        if self.fit.load(Ordering::Acquire) {
            return Ok(());
        }
        let told = self.client.simple_query(schema::SESSION).await;
        let told =
            told.map_err(|error| failed(&target.place, "looking at the session", error).nothing_changed())?;
        let is = |column: usize| {
            let yes = |message: &SimpleQueryMessage| matches!(message, SimpleQueryMessage::Row(row) if row.get(column) == Some("t"));
            told.iter().any(yes)
        };
        let unfit = |what: &str| {
            let message = format!("the connection to {} {what}", target.place);
            Err(StoreError::new(ErrorKind::Configuration, message))
        };
        if !is(0) {
            return unfit(
                "is in a transaction that was begun before: nothing would be committed when it is answered",
            );
        }
        if !is(1) {
            return unfit(
                "has a search_path with another schema before pg_catalog, whose names the functions mean",
            );
        }
        self.look_over(target).await.map(drop)
    }

    /// Gives the tag that the server knows it by.
    async fn look_over(&self, target: &Target) -> Result<Option<String>, StoreError> {
        let greeting = self.greet(target).await?;
        schema::KNOWN.admit(&target.place, greeting.found)?;
        if !greeting.same_history {
            // Whatever becomes of that, what the connection was made for was not asked.
            self.settle(target, greeting.epoch).await.map_err(StoreError::nothing_changed)?;
        }
        self.fit.store(true, Ordering::Release);
        Ok(greeting.tag)
    }

    /// Connects, and no more. A direct connection is given a tag, which its server knows then; a pooler refuses it, or
    /// keeps it for itself. That is how a pooler is found out before any statement has been given a name.
    pub(super) async fn open(target: &Target) -> Result<(Self, Option<String>), StoreError> {
        let login = target.login().await?;
        if !target.options.pooler {
            let tag = format!("{:016x}", random()?);
            let mut config = login.clone();
            let asked = config.get_options().unwrap_or_default();
            // At a stricter level the functions refuse. Where nobody can ask for one here, each call does: see `unnamed`.
            config.options(format!(
                "{asked} -c lease_machines.tag={tag} -c default_transaction_isolation=read\\ committed \
                 -c statement_timeout={}",
                target.options.limits.timeout.as_millis()
            ));
            match Self::start(target, &config).await {
                Ok(link) => return Ok((link, Some(tag))),
                Err(Some(error)) if error.code() == Some(&SqlState::PROTOCOL_VIOLATION) => {}
                Err(Some(error)) => return Err(not_connected(&target.place, error)),
                Err(None) => return Err(too_late(target)),
            }
        }
        match Self::start(target, &login).await {
            Ok(link) => Ok((link, None)),
            Err(Some(error)) => Err(not_connected(&target.place, error)),
            Err(None) => Err(too_late(target)),
        }
    }

    /// `Err(None)` where nobody answered in time.
    async fn start(target: &Target, config: &Config) -> Result<Self, Option<Error>> {
        let connecting = timeout(target.options.connect_timeout, config.connect(target.tls.clone()));
        let (client, mut connection) = connecting.await.map_err(|_| None)?.map_err(Some)?;
        let unsynced = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&unsynced);
        let task = tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                let AsyncMessage::Notice(notice) = message else { continue };
                // It has no code of its own; the routine's name is the same in every language.
                if notice.routine() == Some("SyncRepWaitForLSN") {
                    told.store(true, Ordering::Release);
                }
            }
        });
        let task = Some(task.abort_handle());
        Ok(Self { task, ..Self::with(client, unsynced) })
    }

    /// A connection of the user's own, of which nobody here knows who stands between.
    pub(super) fn of(client: Client) -> Self {
        Self::with(client, Arc::default())
    }

    fn with(client: Client, unsynced: Arc<AtomicBool>) -> Self {
        Self {
            client,
            direct: false,
            prepared: Mutex::default(),
            strict: AtomicBool::new(false),
            fit: AtomicBool::new(false),
            unsynced,
            task: None,
        }
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn client_mut(&mut self) -> &mut Client {
        &mut self.client
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Ends it at once, whatever it waits for.
    pub(super) fn cut(self) {
        if let Some(task) = self.task {
            task.abort();
        }
    }

    async fn greet(&self, target: &Target) -> Result<Greeting, StoreError> {
        let text = schema::greeting(&target.options.quoted_schema());
        let doing = "looking for the tables";
        let rows = self
            .client
            .query_typed(&text, &[])
            .await
            .map_err(|error| failed(&target.place, doing, error).nothing_changed())?;
        let Some(row) = rows.first() else {
            return Err(StoreError::new(
                ErrorKind::NotSetUp,
                format!("{} has no epoch: it was never set up, or was wiped", target.place),
            ));
        };
        let error = |error| failed(&target.place, doing, error).nothing_changed();
        Ok(Greeting {
            tag: row.try_get(0).map_err(error)?,
            found: schema::stamp(row, 1).map_err(error)?,
            epoch: answer::epoch(&target.place, row.try_get(3).map_err(error)?)?,
            same_history: row.try_get(4).map_err(error)?,
        })
    }

    /// The server is another than the one that `epoch` was opened on, or was set back: what it answered last may be
    /// lost. A new epoch is opened, unless its failovers are trusted. Of twenty who find out, one does.
    pub(super) async fn settle(&self, target: &Target, epoch: Epoch) -> Result<(), StoreError> {
        if target.options.trust_failover {
            let text = schema::acknowledge(&target.options.quoted_schema());
            return self
                .client
                .batch_execute(&text)
                .await
                .map_err(|error| failed(&target.place, "taking note of a failover", error));
        }
        self.open_epoch(target, epoch, 0, false).await.map(drop)
    }

    /// Says in which epoch the store is then, also where another has opened it meanwhile, once that is where it has to be.
    pub(super) async fn open_epoch(
        &self,
        target: &Target,
        instead_of: Epoch,
        above: u64,
        dead: bool,
    ) -> Result<Epoch, StoreError> {
        use super::calls::{bits, number, truth};
        let max_ttl = i64::try_from(target.options.limits.max_ttl.as_micros()).unwrap_or(i64::MAX);
        let above = i64::try_from(above).unwrap_or(i64::MAX);
        let parameters = vec![
            bits(instead_of.value()),
            bits(Epoch::draw()?.value()),
            number(above),
            truth(dead),
            number(max_ttl),
        ];
        let rows = self
            .ask(target, Call::OpenEpoch, parameters, target.options.limits.timeout)
            .await
            .map_err(|error| failed(&target.place, "opening an epoch", error))?;
        self.synced(&target.place)?;
        let bits = rows.first().and_then(|row| row.try_get::<_, i64>(0).ok());
        answer::epoch(&target.place, bits.unwrap_or(0))
    }

    /// Sends a statement and waits for its end. `left` is for all of it; a lock is waited for a little less, so that the
    /// server says that it was not done before nobody knows.
    pub(super) async fn ask(
        &self,
        target: &Target,
        call: Call,
        mut parameters: Vec<Parameter>,
        left: Duration,
    ) -> Result<Vec<Row>, Error> {
        if call.locks() {
            let millis = left.mul_f64(0.8).as_millis().max(1);
            parameters.push(super::calls::small(i32::try_from(millis).unwrap_or(i32::MAX)));
        }
        self.unsynced.store(false, Ordering::Release);
        let text = target.calls.text(call);
        if !self.direct {
            let typed: Vec<(&(dyn ToSql + Sync), Type)> =
                parameters.iter().map(|(value, of)| (&**value as &(dyn ToSql + Sync), of.clone())).collect();
            return self.unnamed(text, &typed).await;
        }
        let known = self.prepared.lock().unwrap_or_else(PoisonError::into_inner).get(&call).cloned();
        let statement = match known {
            Some(statement) => statement,
            None => {
                let types: Vec<Type> = parameters.iter().map(|(_, of)| of.clone()).collect();
                let statement = self.client.prepare_typed(text, &types).await?;
                let mut prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
                prepared.insert(call, statement.clone());
                statement
            }
        };
        let values: Vec<&(dyn ToSql + Sync)> =
            parameters.iter().map(|(value, _)| &**value as &(dyn ToSql + Sync)).collect();
        self.client.query(&statement, &values).await
    }

    /// Where the session's transactions are too strict for a decision, which its refusal says, each statement is put into one
    /// that says its own level. All of it is sent at once, as one round trip; nothing stays open, whatever becomes of this
    /// future.
    async fn unnamed(&self, text: &str, typed: &[(&(dyn ToSql + Sync), Type)]) -> Result<Vec<Row>, Error> {
        if !self.strict.load(Ordering::Relaxed) {
            match self.client.query_typed(text, typed).await {
                Err(error) if error.code().is_some_and(is_too_strict) => {
                    self.strict.store(true, Ordering::Relaxed);
                }
                answer => return answer,
            }
        }
        let (_, rows, ended) = tokio::join!(
            biased;
            self.client.query_typed("BEGIN ISOLATION LEVEL READ COMMITTED", &[]),
            self.client.query_typed(text, typed),
            self.client.query_typed("COMMIT", &[]),
        );
        // Where none was begun, the functions have refused again. The answer counts once it is committed.
        rows.and_then(|rows| ended.map(|_| rows))
    }

    /// Whether the last answer is where the server was set to have it before it answers.
    ///
    /// # Errors
    ///
    /// [`Unreachable`](ErrorKind::Unreachable), and so *unknown*, where it is not.
    pub(super) fn synced(&self, place: &Place) -> Result<(), StoreError> {
        if !self.unsynced.load(Ordering::Acquire) {
            return Ok(());
        }
        let message =
            format!("{place} has decided, but did not wait for the standbys that it was set to wait for");
        Err(StoreError::new(ErrorKind::Unreachable, message))
    }
}

fn too_late(target: &Target) -> StoreError {
    let message = format!("{} did not answer within {:?}", target.place, target.options.connect_timeout);
    StoreError::new(ErrorKind::Unreachable, message).nothing_changed()
}
