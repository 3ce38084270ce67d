//! What weakens the promises of a server.

use redis::Value;

use super::hub::Hub;
use super::link::Examined;
use super::server::Server;
use crate::decide::micros;
use crate::server::{rights, with_epoch};
use crate::{Finding, Severity, StoreError};

pub(super) async fn look(hub: &Hub) -> Result<Vec<Finding>, StoreError> {
    let Examined { server, time, lacking } = hub.link.examine(hub.link.deadline()).await?;
    let refused = server.unusable();
    let mut findings = vec![
        Finding::fine("server", format!("{} {}", server.product, server.version)),
        durability(&server),
        replicas(&server, hub.options.replicas),
        rights(&lacking.join(", ")),
    ];
    if refused.iter().all(|why| why.check != "eviction") {
        findings.push(Finding::fine("eviction", "maxmemory-policy is noeviction: nothing is thrown away"));
    }
    findings.extend(time.as_ref().map(clock));
    findings.extend(memory(&server));
    findings
        .extend(refused.into_iter().map(|why| Finding::new(Severity::Error, why.check, why.found, why.mend)));
    with_epoch(findings, hub.epoch().await)
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
