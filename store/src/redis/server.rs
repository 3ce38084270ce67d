//! What a server says of itself.

use redis::Value;

use super::answer::text;
use super::failure::cluster;
use crate::ErrorKind;

/// The parts of `INFO` and `CONFIG GET` that matter here.
#[derive(Clone, Default, Debug)]
pub(super) struct Server {
    pub(super) product: &'static str,
    pub(super) version: String,
    pub(super) run: String,
    pub(super) place: String,
    pub(super) clustered: bool,
    pub(super) replica: bool,
    pub(super) replicas: u64,
    /// The history that it followed before it was promoted; empty where it never was.
    pub(super) former: String,
    pub(super) eviction: String,
    pub(super) maxmemory: u64,
    /// It reads its data, and has switched its log off for so long.
    pub(super) loading: bool,
    pub(super) aof: bool,
    /// `None` where the server does not let it be asked.
    pub(super) fsync: Option<String>,
    pub(super) used_memory: u64,
}

/// Why a server cannot be used.
pub(super) struct Unusable {
    /// What was looked at, for the doctor.
    pub(super) check: &'static str,
    pub(super) kind: ErrorKind,
    pub(super) found: String,
    pub(super) mend: &'static str,
}

impl Server {
    /// The answers to `INFO` and to the `CONFIG GET`s, which may be errors where rights are missing.
    pub(super) fn read(info: &str, config: &[Value]) -> Self {
        let mut server = Self { product: "Redis", ..Self::default() };
        let mut place = Vec::new();
        for line in info.lines() {
            let Some((name, value)) = line.trim_end().split_once(':') else { continue };
            let number = || value.parse().unwrap_or(0);
            match name {
                "redis_version" if server.version.is_empty() => server.version = value.to_owned(),
                "valkey_version" => (server.product, server.version) = ("Valkey", value.to_owned()),
                "run_id" => server.run = value.to_owned(),
                "tcp_port" | "config_file" => place.push(value.to_owned()),
                "redis_mode" | "server_mode" => server.clustered |= value == "cluster",
                "cluster_enabled" => server.clustered |= value == "1",
                "role" => server.replica = value != "master",
                "connected_slaves" => server.replicas = number(),
                "master_replid2" if value.bytes().any(|byte| byte != b'0') => {
                    server.former = value.to_owned()
                }
                "maxmemory_policy" => server.eviction = value.to_owned(),
                "maxmemory" => server.maxmemory = number(),
                "used_memory" => server.used_memory = number(),
                "loading" | "async_loading" => server.loading |= value == "1",
                "aof_enabled" => server.aof = value == "1",
                _ => {}
            }
        }
        for pair in config {
            let Value::Array(pair) = pair else { continue };
            match (pair.first().and_then(text).as_deref(), pair.get(1).and_then(text)) {
                (Some("appendfsync"), value) => server.fsync = value,
                (Some("dir"), Some(dir)) => place.push(dir),
                _ => {}
            }
        }
        server.place = place.join(" ");
        server
    }

    /// What its history calls this run of the server: one that was promoted goes on as another.
    pub(super) fn name(&self) -> String {
        format!("{} {}", self.run, self.former).trim_end().to_owned()
    }

    /// Everything that is answered is on the disk before.
    pub(super) fn is_durable(&self) -> bool {
        self.aof && self.fsync.as_deref() == Some("always")
    }

    /// Everything for which it is refused, what cannot be helped first.
    pub(super) fn unusable(&self) -> Vec<Unusable> {
        let mut all = Vec::new();
        let mut add = |check, kind, found, mend| all.push(Unusable { check, kind, found, mend });
        if self.run.is_empty() {
            let found = "it does not say what it is (INFO): expected a Redis or Valkey server".to_owned();
            add("server", ErrorKind::Configuration, found, "name another server");
            return all;
        }
        if self.is_old() {
            let found = format!("it is {} {}, expected at least 6.2", self.product, self.version);
            add("version", ErrorKind::Configuration, found, "use a newer one");
        }
        if self.clustered {
            add("cluster", ErrorKind::Configuration, cluster(), "name a server of its own");
        }
        if !self.eviction.is_empty() && self.eviction != "noeviction" {
            let found = format!(
                "its maxmemory-policy is {}, under which it throws leases away when memory runs short: expected noeviction",
                self.eviction
            );
            add("eviction", ErrorKind::Configuration, found, "set maxmemory-policy noeviction");
        }
        // What it says of its log then is not true later: recorded so, the next restart would be taken for a loss.
        if self.loading {
            let found = "it is still loading its data".to_owned();
            add("loading", ErrorKind::Unreachable, found, "wait until it has");
        }
        if self.replica {
            let found = "it is a replica, which decides nothing".to_owned();
            add("role", ErrorKind::Unreachable, found, "name the primary");
        }
        all
    }

    /// Redis counts on from 6.2; Valkey began at 7.2.
    fn is_old(&self) -> bool {
        let mut parts = self.version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
        let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
        self.product == "Redis" && version < (6, 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        let old = |info: &str| Server::read(info, &[]).is_old();
        assert!(old("redis_version:6.0.16\r\n") && old("redis_version:5.9.9\r\n") && old(""));
        assert!(!old("redis_version:6.2.0\r\n") && !old("redis_version:10.0.0\r\n"));
        assert!(!old("redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.1\r\n"));
    }

    #[test]
    fn all_is_said_for_which_a_server_is_refused() {
        let refused = |info: &str| {
            let all = Server::read(info, &[]).unusable();
            all.iter().map(|one| format!("{}: {}", one.check, one.found)).collect::<Vec<_>>()
        };
        let right = "redis_version:6.2.0\r\nrun_id:1\r\nrole:master\r\nmaxmemory_policy:noeviction\r\n";
        assert!(refused(right).is_empty());
        assert_eq!(
            refused("redis_version:6.0.16\r\nrun_id:1\r\nrole:slave\r\n"),
            [
                "version: it is Redis 6.0.16, expected at least 6.2",
                "role: it is a replica, which decides nothing"
            ]
        );
        let wrong = refused(
            "redis_version:7.0.15\r\nrun_id:1\r\ncluster_enabled:1\r\nmaxmemory_policy:allkeys-lru\r\n",
        );
        assert!(wrong[0].starts_with("cluster: ") && wrong[1].contains("allkeys-lru"), "{wrong:?}");
        assert_eq!(refused("").len(), 1);
    }

    #[test]
    fn a_server_that_reads_its_data_says_so() {
        let loading = |info: &str| Server::read(info, &[]).loading;
        assert!(loading("loading:1\r\naof_enabled:0\r\n") && loading("loading:0\r\nasync_loading:1\r\n"));
        assert!(!loading("loading:0\r\nasync_loading:0\r\nloading_start_time:1\r\n"));
    }

    #[test]
    fn a_server_that_never_was_a_replica_followed_no_history() {
        let zeros = format!("master_replid2:{}\r\nrole:master\r\n", "0".repeat(40));
        assert_eq!(Server::read(&zeros, &[]).former, "");
        let other = format!("master_replid2:{}\r\nrole:slave\r\n", "a".repeat(40));
        let other = Server::read(&other, &[]);
        assert_eq!((other.former.len(), other.replica), (40, true));
    }
}
