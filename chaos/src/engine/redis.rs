//! A Redis or Valkey server that writes everything down before it answers.

use std::sync::Mutex;

use lease_machines_store::{GuardMode, LeaseRef, MarkKey, RedisFence};
use redis::aio::MultiplexedConnection;
use tokio::time::timeout;

use super::database::{Database, proxies, unknown};
use super::{Engine, Job, Later, PATIENCE, REMEMBERED, Server, TIMEOUT, refused};
use crate::history::{Answer, Written, now};
use crate::proxy::{Proxy, Wire};
use crate::random::Random;
use crate::record::Recorder;
use crate::servers::clock::WallClock;
use crate::servers::guard::Guarded;
use crate::servers::redis::{DURABLE, RedisServer};

pub(super) struct Redis {
    server: Running,
    proxies: Vec<Proxy>,
    version: String,
    port: u16,
}

struct Running {
    server: Mutex<RedisServer>,
    clock: WallClock,
    /// Where that one is.
    _folder: Guarded,
}

impl Redis {
    pub(super) fn start(program: &'static str, random: Random, recorder: &Recorder) -> Result<Self, String> {
        let folder = Guarded::folder("clock");
        let clock = WallClock::new(folder.path().to_owned())?;
        let server = RedisServer::start_in(program, DURABLE, &clock.variables());
        let port = server.port;
        lease_machines_store::migrate(&url(port)).map_err(|error| error.to_string())?;
        let version = server.command(&["INFO", "server"]);
        let field = |name: &str| {
            version.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim().to_owned()
        };
        let version = match field("valkey_version:") {
            none if none.is_empty() => format!("Redis {}", field("redis_version:")),
            valkey => format!("Valkey {valkey}"),
        };
        Ok(Self {
            server: Running { server: Mutex::new(server), clock, _folder: folder },
            proxies: proxies(Wire::Redis, true, port, random, recorder)?,
            version,
            port,
        })
    }
}

fn url(port: u16) -> String {
    format!("redis://127.0.0.1:{port}/0?timeout={TIMEOUT}&history={REMEMBERED}")
}

fn place(port: u16) -> String {
    format!("redis://127.0.0.1:{port}/0")
}

async fn connect(place: &str) -> redis::RedisResult<MultiplexedConnection> {
    redis::Client::open(place)?.get_multiplexed_async_connection().await
}

impl Engine for Redis {
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
        format!("{url}&namespace=second")
    }

    fn place(&self) -> String {
        place(self.proxies[1].port)
    }

    fn written(&self) -> Later<'_, Result<Vec<Written>, String>> {
        Box::pin(async move {
            let read = async {
                let mut connection = connect(&place(self.port)).await?;
                let keys: Vec<String> =
                    redis::cmd("KEYS").arg("journal:*").query_async(&mut connection).await?;
                let mut written = Vec::new();
                for key in keys {
                    let rows: Vec<String> =
                        redis::cmd("LRANGE").arg(&key).arg(0).arg(-1).query_async(&mut connection).await?;
                    let resource = key.trim_start_matches("journal:");
                    written.extend(rows.iter().zip(1..).filter_map(|(row, n)| {
                        let (token, id) = row.split_once(' ')?;
                        Some(Written {
                            resource: resource.to_owned(),
                            n,
                            token: token.parse().ok()?,
                            id: id.parse().ok()?,
                        })
                    }));
                }
                Ok::<_, redis::RedisError>(written)
            };
            read.await.map_err(|error| error.to_string())
        })
    }

    fn server(&self) -> Option<&dyn Server> {
        Some(&self.server)
    }

    fn proxies(&self) -> &[Proxy] {
        &self.proxies
    }
}

impl Server for Running {
    fn kill(&self) {
        self.server.lock().unwrap().kill();
    }

    fn restart(&self) {
        self.server.lock().unwrap().restart();
    }

    fn freeze(&self) {
        self.server.lock().unwrap().freeze();
    }

    fn thaw(&self) {
        self.server.lock().unwrap().thaw();
    }

    fn set_clock(&self, ahead: i64) {
        self.clock.set(ahead);
    }
}

impl Database for Redis {
    type Connection = MultiplexedConnection;

    const WAYS: &'static [(&'static str, bool)] = &[("script", true)];

    async fn connect(place: &str) -> Result<MultiplexedConnection, String> {
        connect(place).await.map_err(|error| error.to_string())
    }

    async fn write(connection: &mut MultiplexedConnection, job: &Job) -> (Option<u64>, Answer) {
        let mut commands = redis::pipe();
        let key = format!("journal:{}", job.key.resource.as_str());
        commands.cmd("RPUSH").arg(key).arg(format!("{} {}", job.lease.token, job.id));
        let mode = if job.strict { GuardMode::Strict } else { GuardMode::Plain };
        let fence = RedisFence::default();
        match timeout(PATIENCE, fence.run(connection, &job.key, &job.lease, mode, &commands)).await {
            Ok(Ok(_)) => (Some(now()), Answer::Passed),
            Ok(Err(error)) => {
                let (guarded, answer) = refused(&error);
                // One script is guard, write and commit.
                (guarded, unknown(answer))
            }
            Err(_) => (None, Answer::Unknown("no answer".to_owned())),
        }
    }

    async fn advance(
        connection: &mut MultiplexedConnection,
        key: &MarkKey,
        lease: &LeaseRef,
    ) -> Result<(), Answer> {
        RedisFence::default()
            .advance(connection, key, lease)
            .await
            .map_err(|error| unknown(refused(&error).1))
    }
}
