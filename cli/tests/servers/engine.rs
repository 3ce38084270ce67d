//! The engines that every test of a call runs on.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

use crate::servers::mysql;
use crate::servers::postgres::{Server, fresh_name};
use crate::servers::redis::{DURABLE, RedisServer};
use crate::support::{Answer, Grant, World};

/// Makes a test of each function, on a fresh store of each engine.
macro_rules! on_each_engine {
    ($($name:ident)*) => {
        mod on_postgres {
            $(#[test] fn $name() { super::$name(&$crate::engine::Place::postgres()); })*
        }
        mod on_mariadb {
            $(#[test] fn $name() { super::$name(&$crate::engine::Place::mariadb()); })*
        }
        mod on_redis {
            $(#[test] fn $name() { super::$name(&$crate::engine::Place::redis()); })*
        }
        #[cfg(feature = "etcd")]
        mod on_etcd {
            $(#[test] fn $name() { super::$name(&$crate::engine::Place::etcd()); })*
        }
    };
}
pub(crate) use on_each_engine;

/// A part of a server that nobody else uses, and `lease` on it.
pub(crate) struct Place {
    world: World,
    url: String,
}

impl Place {
    pub(crate) fn postgres() -> Self {
        Self { world: World::new(), url: Server::shared().url(&fresh_name()) }
    }

    /// No server: a file, to move from.
    pub(crate) fn sqlite() -> Self {
        let world = World::new();
        let url = world.url();
        Self { world, url }
    }

    pub(crate) fn mariadb() -> Self {
        let server = mysql::Server::shared(mysql::Kind::MariaDb);
        Self { world: World::new(), url: server.url(&server.empty()) }
    }

    pub(crate) fn redis() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("namespace=t{}", COUNT.fetch_add(1, Ordering::SeqCst));
        Self { world: World::new(), url: redis().url(&name) }
    }

    #[cfg(feature = "etcd")]
    pub(crate) fn etcd() -> Self {
        let server = crate::servers::etcd::EtcdServer::shared();
        Self { world: World::new(), url: server.url(&crate::servers::etcd::namespace()) }
    }

    /// On a server of the test's own.
    pub(crate) fn at(url: String) -> Self {
        Self { world: World::new(), url }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// A path in the folder that commands work in.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.world.path(name)
    }

    /// Sets the store up.
    pub(crate) fn set_up(&self) -> &Self {
        self.lease("migrate").ok();
        self
    }

    pub(crate) fn command<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Command {
        let mut command = self.world.bare(words);
        command.env("LEASE_STORE", &self.url);
        command
    }

    /// Runs words that are separated by single blanks.
    pub(crate) fn lease(&self, words: &str) -> Answer {
        Answer::of(&mut self.command(words.split(' ')))
    }

    /// The same with `--json`, which succeeds.
    pub(crate) fn json(&self, words: &str) -> Value {
        self.lease(&format!("{words} --json")).ok().json()
    }

    pub(crate) fn acquire(&self, words: &str) -> Grant {
        Grant::of(&self.lease(&format!("acquire {words}")))
    }
}

/// The server that the tests of this program share; each has a namespace of its own. Its guard ends it with the program.
fn redis() -> &'static RedisServer {
    static SHARED: OnceLock<RedisServer> = OnceLock::new();
    SHARED.get_or_init(|| RedisServer::start(DURABLE))
}
