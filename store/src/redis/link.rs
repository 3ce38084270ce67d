//! The connection: made when it is needed, looked over before the first decision on it, and given up as soon as it
//! fails. The driver's own connection manager is not used: it does not say whether a request was sent before a failure.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, RedisError, Value};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout, timeout_at};

use super::address::Address;
use super::answer::{array, changed_meanwhile, not_set_up, number, text};
use super::script::{self, HELLO, KNOWN, Keys};
use super::seen::{Run, Seen};
use super::server::Server;
use super::{RedisOptions, failure, rights, tls};
use crate::version::Stamp;
use crate::{Epoch, ErrorKind, StoreError};

/// Where connections come from.
#[derive(Clone)]
pub(super) enum Target {
    Address(Address),
    /// The user's own.
    Client(redis::Client),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Client(client) => write!(f, "redis at {}", client.get_connection_info().addr),
        }
    }
}

/// One connection, shared by all calls.
#[derive(Clone)]
pub(super) struct Live {
    connection: MultiplexedConnection,
    over: Arc<AtomicBool>,
    pub(super) server: Arc<Server>,
    /// What stood there when it was made, and may be used; this program's own where nothing did.
    pub(super) stamp: Stamp,
    /// Whether the server was found to have kept everything that it answered.
    pub(super) standing: Standing,
}

/// What a server is to a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Standing {
    /// It goes on with this store's history.
    Kept,
    /// It may have lost some of it: a new epoch is due in place of this one.
    Lost(Epoch),
}

/// What a doctor is told.
pub(super) struct Examined {
    pub(super) server: Server,
    /// The answer to `TIME`, where it may be asked.
    pub(super) time: Option<Value>,
    /// What of its rights the user lacks.
    pub(super) lacking: Vec<String>,
}

pub(super) struct Link {
    pub(super) target: Target,
    options: RedisOptions,
    keys: Keys,
    seen: Arc<Seen>,
    live: Mutex<Option<Live>>,
}

impl Link {
    pub(super) fn new(target: Target, options: &RedisOptions, seen: Arc<Seen>) -> Self {
        let keys = Keys::new(&options.namespace);
        Self { target, options: options.clone(), keys, seen, live: Mutex::new(None) }
    }

    /// When a request that begins now has to have ended.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.options.limits.timeout
    }

    /// The connection, whatever the store is in. Whatever goes wrong, nothing was asked.
    pub(super) async fn live(&self, deadline: Instant) -> Result<Live, StoreError> {
        let connecting = async {
            let mut kept = self.live.lock().await;
            if let Some(live) = kept.as_ref().filter(|live| !live.is_over()) {
                return Ok(live.clone());
            }
            let live = self.connect().await?;
            *kept = Some(live.clone());
            Ok(live)
        };
        match timeout_at(deadline, connecting).await {
            Ok(live) => live.map_err(StoreError::nothing_changed),
            Err(_) => {
                let timeout = self.options.limits.timeout;
                Err(self.late("could not be connected to", timeout).nothing_changed())
            }
        }
    }

    fn late(&self, what: &str, limit: Duration) -> StoreError {
        StoreError::new(ErrorKind::Unreachable, format!("{} {what} within {limit:?}", self.target))
    }

    fn unanswered(&self) -> StoreError {
        self.late("did not answer", self.options.limits.timeout)
    }

    fn failed(&self, error: RedisError) -> StoreError {
        failure::of_call(&self.target, error)
    }

    /// One that may be decided on. A server that takes a connection, and then says nothing, is not there either.
    async fn connect(&self) -> Result<Live, StoreError> {
        let over = Arc::new(AtomicBool::new(false));
        let limit = self.options.connect_timeout;
        let connecting = async {
            let connection = self.open(&over).await?;
            self.look_over(connection, Arc::clone(&over)).await
        };
        timeout(limit, connecting)
            .await
            .unwrap_or_else(|_| Err(self.late("could not be connected to", limit)))
    }

    /// A connection on which nothing was asked yet.
    async fn open(&self, over: &Arc<AtomicBool>) -> Result<MultiplexedConnection, StoreError> {
        let asked = match &self.options.passwords {
            None => None,
            Some(passwords) => Some(passwords.ask(&self.target, self.options.connect_timeout).await?),
        };
        match &self.target {
            Target::Client(client) => {
                let mut to = client.get_connection_info().clone();
                to.redis.password = asked.or(to.redis.password);
                let client = redis::Client::open(to).map_err(|error| self.failed(error))?;
                client.get_multiplexed_async_connection().await.map_err(|error| self.failed(error))
            }
            Target::Address(address) => {
                let stream =
                    TcpStream::connect((address.host.as_str(), address.port)).await.map_err(|error| {
                        let message = format!("{}: cannot connect: {error}", self.target);
                        StoreError::new(ErrorKind::Unreachable, message).with_source(error)
                    })?;
                let login = address.login(asked);
                // A decision is one small packet, and waits for its answer.
                let _ = stream.set_nodelay(true);
                if address.tls {
                    let stream = tls::wrap(stream, &address.host).await?;
                    self.drive(MultiplexedConnection::new(&login, stream).await, over)
                } else {
                    self.drive(MultiplexedConnection::new(&login, stream).await, over)
                }
            }
        }
    }

    fn drive(
        &self,
        made: Result<(MultiplexedConnection, impl Future<Output = ()> + Send + 'static), RedisError>,
        over: &Arc<AtomicBool>,
    ) -> Result<MultiplexedConnection, StoreError> {
        let (connection, driver) = made.map_err(|error| self.failed(error))?;
        let over = Arc::clone(over);
        tokio::spawn(async move {
            driver.await;
            over.store(true, Ordering::Release);
        });
        Ok(connection)
    }

    /// What a server says of itself, also one that cannot be used.
    async fn server(&self, connection: &mut MultiplexedConnection) -> Result<Server, StoreError> {
        let info = asked(connection, &redis::cmd("INFO")).await.map_err(|error| self.failed(error))?;
        let mut config = Vec::new();
        for name in ["appendfsync", "dir"] {
            // Managed servers do not let it be asked.
            let mut ask = redis::cmd("CONFIG");
            ask.arg("GET").arg(name);
            match asked(connection, &ask).await {
                Ok(answer) => config.push(answer),
                Err(error) if error.is_io_error() => return Err(self.failed(error)),
                Err(_) => {}
            }
        }
        Ok(Server::read(&text(&info).unwrap_or_default(), &config))
    }

    /// For the doctor, on a connection of its own: one for decisions is not to be had where something is wrong.
    pub(super) async fn examine(&self, deadline: Instant) -> Result<Examined, StoreError> {
        let examining = async {
            let limit = self.options.connect_timeout;
            let connecting = async {
                let mut connection = self.open(&Arc::default()).await?;
                let server = self.server(&mut connection).await?;
                Ok((connection, server))
            };
            let connected = timeout(limit, connecting).await;
            let (mut connection, server) =
                connected.unwrap_or_else(|_| Err(self.late("could not be connected to", limit)))?;
            let time = asked(&mut connection, &redis::cmd("TIME")).await.ok();
            let lacking = rights::lacking(&mut connection, &self.keys).await;
            Ok(Examined { server, time, lacking })
        };
        let examined = timeout_at(deadline, examining).await;
        examined.unwrap_or_else(|_| Err(self.unanswered())).map_err(StoreError::nothing_changed)
    }

    /// What kind of server it is, and whether it still has what it answered.
    async fn look_over(
        &self,
        mut connection: MultiplexedConnection,
        over: Arc<AtomicBool>,
    ) -> Result<Live, StoreError> {
        let server = self.server(&mut connection).await?;
        if let Some(why) = server.unusable().into_iter().next() {
            return Err(StoreError::new(why.kind, format!("{}: {}", self.target, why.found)));
        }
        let stamp = self.load_scripts(&mut connection).await?;
        let mut live = Live { connection, over, server: Arc::new(server), stamp, standing: Standing::Kept };
        live.standing = self.hello(&live).await?;
        Ok(live)
    }

    /// Asks the store whether this server goes on with its history.
    async fn hello(&self, live: &Live) -> Result<Standing, StoreError> {
        let (name, before) = (live.server.name(), self.seen.before(0));
        let mut answer = self.greet(live, &[self.keys.bucket(0)]).await?;
        if word(&answer, 0) == "begins" {
            let all: Vec<String> = self.keys.all().collect();
            answer = self.greet(live, &all).await?;
        }
        let epoch = || word(&answer, 1).parse::<Epoch>().map_err(|_| not_set_up());
        match word(&answer, 0).as_str() {
            // The setting up goes through here, too: what needs the store finds out by itself that it is missing.
            "none" => {
                self.seen.is_under(None);
                Ok(Standing::Kept)
            }
            "kept" => {
                let (epoch, left) = (epoch()?, word(&answer, 3).parse().ok());
                if self.seen.has_gone_back(before, epoch, left) {
                    return Ok(Standing::Lost(epoch));
                }
                self.seen.is_under(run(&answer, name));
                Ok(Standing::Kept)
            }
            "lost" => epoch().map(Standing::Lost),
            _ => Err(changed_meanwhile(&word(&answer, 1))),
        }
    }

    async fn greet(&self, live: &Live, keys: &[String]) -> Result<Value, StoreError> {
        let (server, name) = (&live.server, live.server.name());
        let mut cmd = script::call(&HELLO, keys);
        cmd.arg(live.stamp.version)
            .arg(&server.run)
            .arg(&server.place)
            .arg(&server.former)
            .arg(u8::from(server.is_durable()))
            .arg(u8::from(self.options.trust_failover))
            .arg(&name);
        match self.seen.under_another_run(&name) {
            None => {
                cmd.arg("").arg(0).arg("");
            }
            Some(told) => {
                cmd.arg(told.epoch.to_string()).arg(told.run.number).arg(&told.run.name);
                for (bucket, count) in told.counts {
                    // Lua counts from one.
                    cmd.arg(bucket + 1).arg(count);
                }
            }
        }
        let mut connection = live.connection.clone();
        asked(&mut connection, &cmd).await.map_err(|error| self.failed(error))
    }

    /// Tells the server the scripts, and asks it which version of theirs its data is: all of it in one piece.
    async fn load_scripts(&self, connection: &mut MultiplexedConnection) -> Result<Stamp, StoreError> {
        let mut pipeline = Pipeline::with_capacity(script::ALL.len() + 1);
        for script in script::ALL {
            pipeline.cmd("SCRIPT").arg("LOAD").arg(script.text());
        }
        pipeline.cmd("HMGET").arg(self.keys.bucket(0)).arg("e").arg("v").arg("u");
        let answers = connection.send_packed_commands(&pipeline, 0, script::ALL.len() + 1).await;
        let mut answers = answers.map_err(|error| self.failed(error))?;
        let found = answers.pop().unwrap_or(Value::Nil);
        let loaded = answers.into_iter().try_for_each(|answer| answer.extract_error().map(drop));
        loaded.map_err(|error| self.failed(error))?;
        let found = found.extract_error().map_err(|error| self.failed(error))?;
        let part = |index: usize| array(&found).and_then(|parts| parts.get(index)).and_then(text);
        let (epoch, version, usable_by) = (part(0), part(1), part(2));
        if epoch.is_none() && version.is_none() {
            return Ok(KNOWN.writes);
        }
        let stamp = Stamp::read(&self.target, version.as_deref(), usable_by.as_deref())?;
        KNOWN.admit(&self.target, stamp)?;
        Ok(stamp)
    }

    /// Forgets a connection that is no good any more.
    pub(super) async fn forget(&self, live: &Live) {
        live.over.store(true, Ordering::Release);
        let mut kept = self.live.lock().await;
        if kept.as_ref().is_some_and(Live::is_over) {
            *kept = None;
        }
    }

    /// A connection that is to be greeted anew, where it was found to have lost something.
    pub(super) async fn look_anew(&self, live: &Live) {
        if live.standing != Standing::Kept {
            self.forget(live).await;
        }
    }

    /// Asks the server one thing. Where it does not know the script, nothing was done, and it is told the whole of it.
    pub(super) async fn ask(&self, live: &Live, cmd: &Cmd, deadline: Instant) -> Result<Value, StoreError> {
        match self.send(live, cmd, deadline).await? {
            Err(error) if error.kind() == redis::ErrorKind::NoScriptError => {
                let whole = script::whole(cmd);
                self.send(live, &whole, deadline).await?.map_err(|error| self.failed(error))
            }
            Err(error) => {
                if failure::is_over(&error) {
                    live.over.store(true, Ordering::Release);
                }
                Err(self.failed(error))
            }
            Ok(value) => Ok(value),
        }
    }

    async fn send(
        &self,
        live: &Live,
        cmd: &Cmd,
        deadline: Instant,
    ) -> Result<Result<Value, RedisError>, StoreError> {
        let mut connection = live.connection.clone();
        let sent = async {
            if self.options.replicas == 0 {
                return Ok(asked(&mut connection, cmd).await);
            }
            // In one piece, so that it waits for what this request wrote.
            // Too few replicas are to be heard of before the time is over.
            let left = deadline.saturating_duration_since(Instant::now()).mul_f64(0.75);
            let mut pipeline = Pipeline::with_capacity(2);
            pipeline.add_command(cmd.clone());
            pipeline.cmd("WAIT").arg(self.options.replicas).arg(left.as_millis().max(1).to_string());
            let answers = match connection.send_packed_commands(&pipeline, 0, 2).await {
                Ok(answers) => answers,
                Err(error) => return Ok(Err(error)),
            };
            let mut answers = answers.into_iter();
            match (answers.next(), answers.next()) {
                (Some(Value::ServerError(error)), _) => Ok(Err(error.into())),
                (Some(answer), Some(Value::Int(have))) if have >= i64::from(self.options.replicas) => {
                    Ok(Ok(answer))
                }
                (_, have) => Err(StoreError::new(
                    ErrorKind::Unreachable,
                    format!(
                        "{}: of the replicas, {} have the decision, expected {}",
                        self.target,
                        if let Some(Value::Int(have)) = have { have } else { 0 },
                        self.options.replicas
                    ),
                )),
            }
        };
        match timeout_at(deadline, sent).await {
            Ok(answer) => answer,
            Err(_) => {
                // Whatever was asked on it after this would only wait behind it.
                live.over.store(true, Ordering::Release);
                Err(self.unanswered())
            }
        }
    }
}

/// A word of an answer.
fn word(answer: &Value, index: usize) -> String {
    array(answer).and_then(|parts| parts.get(index)).and_then(text).unwrap_or_default()
}

/// The run of this name, by the number that an answer tells; 0 stands for none.
pub(super) fn run(answer: &Value, name: String) -> Option<Run> {
    let found = array(answer).and_then(|parts| parts.get(2)).and_then(number)?;
    (found > 0).then_some(Run { number: found, name })
}

/// The driver takes an error that the server answers for a value.
pub(super) async fn asked(connection: &mut MultiplexedConnection, cmd: &Cmd) -> Result<Value, RedisError> {
    connection.send_packed_command(cmd).await.and_then(Value::extract_error)
}

impl Live {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }
}
