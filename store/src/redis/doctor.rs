//! What weakens the promises of a server.

use redis::Value;

use super::core::Core;
use super::script::Keys;
use super::server::Server;
use crate::decide::micros;
use crate::{Finding, Severity, StoreError};

pub(super) async fn look(core: &Core) -> Result<Vec<Finding>, StoreError> {
    let deadline = core.link.deadline();
    let live = core.ready(deadline).await?;
    let epoch = core.epoch().await?;
    let time =
        core.link.ask(&live, &redis::cmd("TIME"), deadline).await.map_err(StoreError::nothing_changed)?;
    let server = &live.server;
    let mut findings = vec![
        Finding::fine("server", format!("{} {}", server.product, server.version)),
        Finding::fine("epoch", epoch.to_string()),
        Finding::fine("eviction", "maxmemory-policy is noeviction: nothing is thrown away"),
        durability(server),
        replicas(server, core.options.replicas),
        clock(&time),
    ];
    findings.extend(memory(server));
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    Ok(findings)
}

fn durability(server: &Server) -> Finding {
    const MEND: &str = "set appendonly yes and appendfsync always, in the server's configuration file too";
    let lost = "a restart may lose what was answered, and opens a new epoch: every lease is lost then";
    match (server.aof, server.fsync.as_deref()) {
        (true, Some("always")) => {
            Finding::fine("durability", "appendonly yes, appendfsync always: what is answered is on the disk")
        }
        (true, Some(other)) => {
            Finding::new(Severity::Error, "durability", format!("appendfsync is {other:?}: {lost}"), MEND)
        }
        (true, None) => Finding::new(
            Severity::Warning,
            "durability",
            format!(
                "appendonly is yes, and appendfsync cannot be asked (CONFIG GET); unless it is always, {lost}"
            ),
            "let this user run CONFIG GET, or ask whoever runs the server",
        ),
        (false, _) => Finding::new(Severity::Error, "durability", format!("appendonly is no: {lost}"), MEND),
    }
}

fn replicas(server: &Server, asked: u32) -> Finding {
    let found = format!("{} connected, decisions wait for {asked}", server.replicas);
    if u64::from(asked) > server.replicas {
        return Finding::new(
            Severity::Error,
            "replicas",
            format!("{found}: every answer is unknown"),
            "connect more replicas, or ask for fewer (?replicas=N)",
        );
    }
    if server.replicas > 0 && asked == 0 {
        return Finding::new(
            Severity::Note,
            "replicas",
            format!("{found}: a replica that is promoted may lack the last decisions, and opens a new epoch"),
            "ask for replicas (?replicas=N) where failovers are to lose nothing",
        );
    }
    Finding::fine("replicas", found)
}

/// Leases do not mind how far the clocks are apart; people who read times do.
fn clock(time: &Value) -> Finding {
    let Value::Array(parts) = time else {
        return Finding::fine("clock", "the server does not tell its time");
    };
    let number = |index: usize| {
        parts.get(index).and_then(super::answer::text).and_then(|part| part.parse::<u64>().ok()).unwrap_or(0)
    };
    let there = number(0).saturating_mul(1_000_000).saturating_add(number(1));
    let apart = there.abs_diff(micros(std::time::SystemTime::now()));
    let found = format!("the server's clock is {:.1} s from this machine's", apart as f64 / 1e6);
    if apart < 5_000_000 {
        Finding::fine("clock", found)
    } else {
        Finding::new(
            Severity::Note,
            "clock",
            found,
            "keep both clocks right: a step ends leases early, or late",
        )
    }
}

fn memory(server: &Server) -> Option<Finding> {
    if server.maxmemory == 0 {
        return Some(Finding::fine("memory", format!("{} bytes used, no limit set", server.used_memory)));
    }
    let found = format!("{} of {} bytes used", server.used_memory, server.maxmemory);
    Some(if server.used_memory > server.maxmemory / 10 * 9 {
        let mend = "give it more, or prune: beyond the limit nothing is decided";
        Finding::new(Severity::Warning, "memory", found, mend)
    } else {
        Finding::fine("memory", found)
    })
}

/// The commands that give a user what the store needs.
pub(super) fn rights(namespace: &str) -> String {
    let pattern = Keys::new(namespace).pattern();
    format!(
        "# Redis has no tables: migrating writes {} hashes with a random epoch. A user who may not do everything needs:\n\
         ACL SETUSER lease on >PASSWORD resetkeys ~{pattern} -@all +evalsha +eval +script|load +info +config|get +time \
         +wait +select +hmget +hget +hset +hsetnx +hgetall +hdel +lpush +ltrim +lrange +llen +lindex +rpop +rpush +del +set +exists \
         +hkeys +zadd +zrem +zrange +zrangebyscore +zrevrangebyscore +zcard +zcount +setbit +getbit +bitpos\n\
         # +config|get is used for appendfsync and dir alone: without it every restart of the server opens a new epoch.\n",
        super::script::BUCKETS
    )
}
