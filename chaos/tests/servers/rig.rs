//! A store of a test's own, and what can happen to it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, thread};

use lease_machines_store::Store;
use rustix::process::{Pid, Signal, kill_process};

#[cfg(feature = "etcd")]
use crate::servers::etcd::EtcdServer;
use crate::servers::guard::Guarded;
use crate::servers::mysql;
use crate::servers::postgres;
use crate::servers::redis::{DURABLE, RedisServer};

pub(crate) enum Rig {
    Postgres(postgres::Server),
    MariaDb(mysql::Server),
    Redis(RedisServer),
    #[cfg(feature = "etcd")]
    Etcd(EtcdServer),
}

impl Rig {
    pub(crate) fn postgres() -> Self {
        Self::Postgres(postgres::Server::start(&[]))
    }

    pub(crate) fn mariadb() -> Self {
        let rig = Self::MariaDb(mysql::Server::start(mysql::Kind::MariaDb, &mysql::Server::LAX));
        if let Self::MariaDb(server) = &rig {
            server.sql("", "CREATE DATABASE leases");
        }
        rig
    }

    pub(crate) fn redis() -> Self {
        Self::Redis(RedisServer::start(DURABLE))
    }

    #[cfg(feature = "etcd")]
    pub(crate) fn etcd() -> Self {
        Self::Etcd(EtcdServer::start())
    }

    /// With a store that is set up.
    pub(crate) fn set_up(self) -> Self {
        lease_machines_store::migrate(&self.url()).unwrap();
        self
    }

    /// A server that does not answer is given up soon.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Postgres(server) => format!("{}&timeout=2s", server.url("leases")),
            Self::MariaDb(server) => format!("{}?timeout=2s", server.url("leases")),
            Self::Redis(server) => server.url("timeout=2s"),
            #[cfg(feature = "etcd")]
            Self::Etcd(server) => format!("{}?timeout=2s", server.url("leases")),
        }
    }

    pub(crate) fn open(&self) -> Arc<dyn Store> {
        lease_machines_store::open(&self.url()).unwrap()
    }

    /// As a crash does.
    pub(crate) fn kill(&mut self) {
        match self {
            Self::Postgres(server) => server.kill(),
            Self::MariaDb(server) => server.kill(),
            Self::Redis(server) => server.kill(),
            #[cfg(feature = "etcd")]
            Self::Etcd(server) => server.kill(),
        }
    }

    pub(crate) fn up(&mut self) {
        match self {
            Self::Postgres(server) => server.up(),
            Self::MariaDb(server) => server.up(),
            Self::Redis(server) => server.restart(),
            #[cfg(feature = "etcd")]
            Self::Etcd(server) => server.restart(),
        }
    }

    /// Stops the server and all that it has started, until this is dropped.
    pub(crate) fn freeze(&self) -> Frozen {
        let pid = self.guarded().pid().unwrap();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        let children = children.split_whitespace().filter_map(|child| child.parse().ok());
        let all: Vec<Pid> = [pid].into_iter().chain(children).filter_map(Pid::from_raw).collect();
        for pid in &all {
            kill_process(*pid, Signal::STOP).unwrap();
        }
        Frozen(all)
    }

    fn guarded(&self) -> &Guarded {
        match self {
            Self::Postgres(server) => &server.guarded,
            Self::MariaDb(server) => &server.guarded,
            Self::Redis(server) => server.guarded(),
            #[cfg(feature = "etcd")]
            Self::Etcd(server) => server.guarded(),
        }
    }

    /// What the server keeps, as files of a server that does not run.
    fn data(&self) -> PathBuf {
        let folder = self.guarded().path();
        folder.join(if matches!(self, Self::Redis(_)) { "appendonlydir" } else { "data" })
    }

    /// Copies all that the server keeps.
    pub(crate) fn back_up(&mut self) {
        self.kill();
        self.put(&self.data(), &self.guarded().path().join("copy"));
        self.up();
    }

    /// Puts the copy in the place of what the server has kept since.
    pub(crate) fn put_back(&mut self) {
        self.kill();
        self.put(&self.guarded().path().join("copy"), &self.data());
        self.up();
    }

    fn put(&self, from: &Path, to: &Path) {
        let (from, to) = (from.to_str().unwrap(), to.to_str().unwrap());
        self.guarded().run(Path::new("rm"), &["-rf", to]);
        self.guarded().run(Path::new("cp"), &["-a", from, to]);
    }
}

/// Tells the story on each server.
pub(crate) fn on_each(story: fn(Rig)) {
    type Start = fn() -> Rig;
    let rigs: Vec<(&'static str, Start)> = vec![
        ("postgresql", Rig::postgres),
        ("mariadb", Rig::mariadb),
        ("redis", Rig::redis),
        #[cfg(feature = "etcd")]
        ("etcd", Rig::etcd),
    ];
    at_once(rigs.into_iter().map(|(name, start)| (name, move || story(start().set_up()))));
}

/// Tells stories at once, since they wait more than they work. The thread that fails has the name of its story.
pub(crate) fn at_once(stories: impl IntoIterator<Item = (&'static str, impl FnOnce() + Send + 'static)>) {
    let told: Vec<_> = stories
        .into_iter()
        .map(|(name, story)| thread::Builder::new().name(name.to_owned()).spawn(story).unwrap())
        .collect();
    let failed = told.into_iter().map(|thread| thread.join().is_err()).filter(|is_bad| *is_bad).count();
    assert_eq!(failed, 0, "see above");
}

/// Processes that do nothing.
pub(crate) struct Frozen(Vec<Pid>);

impl Drop for Frozen {
    fn drop(&mut self) {
        for pid in &self.0 {
            let _ = kill_process(*pid, Signal::CONT);
        }
    }
}
