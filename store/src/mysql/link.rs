//! One connection.

use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, Opts, OptsBuilder, Params, Row, Value};
use tokio::time::timeout;

use super::answer::{self, Reading};
use super::call::{Call, bits, number, span, truth};
use super::failure::{NO_RIGHT_TO_ROUTINE, failed, is_without_procedure, not_connected};
use super::options::MysqlOptions;
use super::schema;
use crate::{Epoch, ErrorKind, StoreError};

/// Where connections come from, and what is said over them.
pub(super) struct Target {
    opts: Opts,
    pub(super) options: MysqlOptions,
    /// The server and the database, for people: without a user and a password.
    pub(super) place: String,
}

impl Target {
    pub(super) fn new(opts: OptsBuilder, options: MysqlOptions, place: String) -> Self {
        // What the driver would ask every new connection for is not asked for: each question is a round trip.
        let opts = opts
            .prefer_socket(false)
            .wait_timeout(Some(usize::MAX >> 32))
            .max_allowed_packet(Some(16 << 20))
            .into();
        Self { opts, options, place }
    }

    /// How to connect now, with the password of this moment.
    async fn login(&self) -> Result<Opts, StoreError> {
        let Some(passwords) = &self.options.passwords else { return Ok(self.opts.clone()) };
        let password = passwords.ask(&self.place, self.options.connect_timeout).await?;
        Ok(OptsBuilder::from_opts(self.opts.clone()).pass(Some(password)).into())
    }

    pub(super) fn unset(&self) -> StoreError {
        let message = format!("{} has no epoch: it was never set up, or was wiped", self.place);
        StoreError::new(ErrorKind::NotSetUp, message)
    }
}

/// A connection that serves one request at a time.
pub(super) struct Link {
    conn: Conn,
    used: Instant,
    /// Its session is set, and the tables were looked at.
    fit: bool,
    /// For how many seconds its session waits for a lock; 0 where that was not set yet.
    patience: u64,
}

impl Link {
    /// After this long without a request it may have been cut, by the server or by what stands between: it is asked whether
    /// it is there before a request is sent that nobody would know the outcome of.
    const IDLE: Duration = Duration::from_secs(20);

    /// Connects, and looks whether the server has the tables, in a version that this program knows, and is the one that it
    /// was.
    pub(super) async fn connect(target: &Target) -> Result<Self, StoreError> {
        let mut link = Self::open(target).await?;
        link.look_over(target).await?;
        Ok(link)
    }

    /// A connection of the program's own.
    pub(super) fn of(conn: Conn) -> Self {
        Self { conn, used: Instant::now(), fit: false, patience: 0 }
    }

    /// The same for one that was lent. Whatever was set or begun on it is over then.
    pub(super) async fn make_fit(&mut self, target: &Target) -> Result<(), StoreError> {
        if self.fit {
            return Ok(());
        }
        let anew = async {
            self.conn.reset().await?;
            self.conn.query_drop("SET NAMES utf8mb4").await
        };
        anew.await
            .map_err(|error| failed(&target.place, "resetting the session", error).nothing_changed())?;
        self.look_over(target).await
    }

    /// A request on it failed: nobody knows what is open there, and it is made fit again before the next.
    pub(super) fn distrust(&mut self) {
        self.fit = false;
    }

    async fn look_over(&mut self, target: &Target) -> Result<(), StoreError> {
        let rows = self
            .query(&format!("{};{}", settings(target), schema::greeting()))
            .await
            .map_err(|error| failed(&target.place, "looking for the tables", error).nothing_changed())?;
        self.patience = patience(target.options.limits.timeout);
        let row = rows.first().ok_or_else(|| target.unset())?;
        let row = Reading::new(row, &target.place);
        schema::KNOWN.admit(&target.place, schema::stamp(&row)?)?;
        self.look_at_procedures(target).await?;
        if !row.truth("here")? {
            let epoch = row.epoch("epoch")?;
            self.settle(target, epoch).await?;
        }
        self.fit = true;
        Ok(())
    }

    async fn look_at_procedures(&mut self, target: &Target) -> Result<(), StoreError> {
        match self.query(schema::MADE_BY_WHOM).await {
            Ok(rows) => schema::check_procedures(&target.place, rows.first()),
            // The call that needs a right says so: to look, none may be needed.
            Err(Error::Server(told)) if told.code == NO_RIGHT_TO_ROUTINE => Ok(()),
            Err(error) => {
                let error = failed(&target.place, "looking at the procedures", error).nothing_changed();
                Err(self.explained(target, error).await)
            }
        }
    }

    /// Connects, and no more.
    pub(super) async fn open(target: &Target) -> Result<Self, StoreError> {
        let login = target.login().await?;
        let conn = timeout(target.options.connect_timeout, Conn::new(login))
            .await
            .map_err(|_| {
                let message =
                    format!("{} did not answer within {:?}", target.place, target.options.connect_timeout);
                StoreError::new(ErrorKind::Unreachable, message).nothing_changed()
            })?
            .map_err(|error| not_connected(&target.place, error))?;
        Ok(Self::of(conn))
    }

    /// Whether it can be used again. Only one that was idle for long is asked.
    pub(super) async fn is_usable(&mut self) -> bool {
        self.used.elapsed() < Self::IDLE || self.conn.ping().await.is_ok()
    }

    /// An error that says that a procedure is not there, told from a store that is not there at all: its tables may have come
    /// from a dump, which leaves procedures out unless it is asked for them.
    pub(super) async fn explained(&mut self, target: &Target, error: StoreError) -> StoreError {
        if !is_without_procedure(&error) {
            return error;
        }
        match self.query("SELECT 1 FROM lease_store WHERE id = 1").await {
            Ok(rows) if !rows.is_empty() => {
                schema::without_procedures(&target.place, &error).with_source(error)
            }
            _ => error,
        }
    }

    /// Has the server wait for locks a little less long than is left of a call, so that it says *not done* before nobody knows.
    /// As a rule that is set already; a call that had to wait for its connection has less time.
    pub(super) async fn wait_at_most(&mut self, target: &Target, left: Duration) -> mysql_async::Result<()> {
        let all = target.options.limits.timeout;
        let margin = all / 10;
        let seconds = if left + margin >= all {
            patience(all)
        } else if Duration::from_secs(self.patience) + margin > left {
            patience(left).min(self.patience)
        } else {
            self.patience
        };
        if seconds != self.patience {
            self.query(&format!("SET SESSION innodb_lock_wait_timeout = {seconds}")).await?;
            self.patience = seconds;
        }
        Ok(())
    }

    /// The server is another than the one that `epoch` was opened on: what that one answered last may be lost. A new epoch is
    /// opened, unless its failovers are trusted. Of twenty who find out, one does.
    pub(super) async fn settle(&mut self, target: &Target, epoch: Epoch) -> Result<(), StoreError> {
        if target.options.trust_failover {
            return match self.ask(Call::Trust, Vec::new()).await {
                Ok(_) => Ok(()),
                Err(error) => {
                    let error = failed(&target.place, "taking note of a failover", error);
                    Err(self.explained(target, error).await)
                }
            };
        }
        self.open_epoch(target, epoch, 0, false).await.map(drop)
    }

    /// Says in which epoch the store is then.
    pub(super) async fn open_epoch(
        &mut self,
        target: &Target,
        instead_of: Epoch,
        above: u64,
        dead: bool,
    ) -> Result<Epoch, StoreError> {
        let parameters = vec![
            bits(instead_of.value()),
            bits(Epoch::draw()?.value()),
            number(i64::try_from(above).unwrap_or(i64::MAX)),
            truth(dead),
            span(target.options.limits.max_ttl),
        ];
        let rows = match self.ask(Call::OpenEpoch, parameters).await {
            Ok(rows) => rows,
            Err(error) => {
                let error = failed(&target.place, "opening an epoch", error);
                return Err(self.explained(target, error).await);
            }
        };
        Reading::new(answer::one(&rows, &target.place)?, &target.place).epoch("epoch")
    }

    /// Calls a procedure, and waits for its end: the answer counts only then. It is prepared the first time.
    pub(super) async fn ask(&mut self, call: Call, parameters: Vec<Value>) -> mysql_async::Result<Vec<Row>> {
        let parameters = if parameters.is_empty() { Params::Empty } else { Params::Positional(parameters) };
        let mut told = self.conn.exec_iter(call.text(), parameters).await?;
        let rows = told.collect().await?;
        told.drop_result().await?;
        self.used = Instant::now();
        Ok(rows)
    }

    /// Sends a text of one or several statements; gives the rows of the first that has any.
    pub(super) async fn query(&mut self, text: &str) -> mysql_async::Result<Vec<Row>> {
        let mut told = self.conn.query_iter(text).await?;
        let mut rows = Vec::new();
        while !told.is_empty() && rows.is_empty() {
            rows = told.collect().await?;
        }
        told.drop_result().await?;
        self.used = Instant::now();
        Ok(rows)
    }

    pub(super) fn conn(&mut self) -> &mut Conn {
        &mut self.conn
    }
}

/// What the procedures rely on, whatever the server's defaults are. Locks are waited for a little less than the request
/// lasts, so that the server says that it was not done before nobody knows; it counts whole seconds.
pub(super) fn settings(target: &Target) -> String {
    format!(
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE; SET SESSION autocommit = 1, completion_type = 0, \
         time_zone = '+00:00', sql_safe_updates = 0, sql_select_limit = DEFAULT, {}, innodb_lock_wait_timeout = {}",
        schema::SQL_MODE,
        patience(target.options.limits.timeout)
    )
}

/// For how many seconds locks are waited for where so much time is left.
fn patience(left: Duration) -> u64 {
    ((left.as_secs_f64() * 0.8) as u64).clamp(1, 1_000_000)
}
