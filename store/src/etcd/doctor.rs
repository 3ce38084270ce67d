//! What weakens the promises of a cluster.

use etcd_client::{
    AlarmAction, AlarmType, Client, Compare, CompareOp, GetOptions, StatusResponse, Txn, TxnOp,
};

use super::failure::lacks_rights;
use super::hub::Hub;
use crate::server::with_epoch;
use crate::{Finding, Severity, StoreError};

impl Hub {
    pub(super) async fn doctor(&self) -> Result<Vec<Finding>, StoreError> {
        let deadline = self.link.deadline();
        let status = self.link.call(deadline, |mut client: Client| async move { client.status().await });
        let status = status.await.map_err(StoreError::nothing_changed)?;
        let members =
            self.link.call(deadline, |mut client: Client| async move { client.member_list().await });
        let alarms = self.link.call(deadline, |mut client: Client| async move {
            client.alarm(AlarmAction::Get, AlarmType::None, None).await
        });
        let mut findings = vec![version(status.version())];
        findings.extend(learner(&status));
        findings.extend(leader(&status));
        findings.push(space(&status));
        match members.await {
            Ok(found) => findings.push(cluster(found.members().len())),
            Err(error) => findings.push(untold("members", &error)),
        }
        match alarms.await {
            Ok(found) if found.alarms().is_empty() => findings.push(Finding::fine("alarms", "none")),
            Ok(found) => findings.push(Finding::new(
                Severity::Error,
                "alarms",
                format!("{:?}", found.alarms().iter().map(|alarm| alarm.alarm()).collect::<Vec<_>>()),
                "NOSPACE: compact, defragment and `etcdctl alarm disarm`. CORRUPT: replace the member",
            )),
            Err(error) => findings.push(untold("alarms", &error)),
        }
        findings.push(if self.options.tls {
            Finding::fine("transport", "TLS, with a certificate that was verified")
        } else {
            Finding::new(
                Severity::Note,
                "transport",
                "not encrypted: whoever is on the way can read and change what is asked",
                "add tls=1, or cafile=FILE, where it is not a network of your own",
            )
        });
        findings.extend(self.rights().await);
        let epochal = self.epochal(self.link.deadline()).await;
        with_epoch(findings, epochal.map(|epochal| epochal.standing.epoch))
    }

    /// What of the rights that `migrate --print` lists this user lacks. `None` where that cannot be asked: what the epoch cannot be
    /// asked for is the same then.
    async fn rights(&self) -> Option<Finding> {
        let (deadline, prefix) = (self.link.deadline(), self.keys.prefix());
        let all = GetOptions::new().with_prefix().with_count_only();
        let read = Txn::new().and_then([TxnOp::get(prefix, Some(all))]);
        // The cluster looks at the rights to a whole transaction first. No version is below zero, so that nothing is written.
        let never = Compare::version(self.keys.doctor(), CompareOp::Less, 0);
        let write = Txn::new().when([never]).and_then([TxnOp::put(self.keys.doctor(), "", None)]);
        let mut lacking = Vec::new();
        for (what, asked) in [("read", read), ("write", write)] {
            match self.link.transact(asked, deadline).await {
                Ok(_) => {}
                Err(error) if lacks_rights(&error) => lacking.push(what),
                Err(_) => return None,
            }
        }
        if lacking.is_empty() {
            return Some(Finding::fine("rights", "all that the store's calls need"));
        }
        let roles = self.link.roles(deadline).await;
        let found = format!("this user may not {} what begins with {prefix}", lacking.join(" and "));
        Some(Finding::new(Severity::Error, "rights", found, grant(&roles, prefix)))
    }
}

/// What an administrator runs for a user with these roles.
fn grant(roles: &[String], prefix: &str) -> String {
    let permit =
        |role: &str| format!("etcdctl role grant-permission --prefix=true {role} readwrite {prefix}");
    match roles.first() {
        Some(role) => permit(role),
        None => format!(
            "etcdctl role add lease-user; {}; etcdctl user grant-role USER lease-user",
            permit("lease-user")
        ),
    }
}

fn version(found: &str) -> Finding {
    let mut parts = found.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    if (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= (3, 4) {
        return Finding::fine("version", format!("etcd {found}"));
    }
    Finding::new(Severity::Error, "version", format!("etcd {found}"), "etcd 3.4 or later is needed")
}

fn learner(status: &StatusResponse) -> Option<Finding> {
    status.is_learner().then(|| {
        let found = "a learner, which has no vote: it decides nothing";
        Finding::new(Severity::Error, "role", found, "name members that vote, or promote it")
    })
}

fn leader(status: &StatusResponse) -> Option<Finding> {
    (status.leader() == 0).then(|| {
        Finding::new(
            Severity::Error,
            "leader",
            "the member that answered knows of none: nothing is decided",
            "bring more than half of the members back",
        )
    })
}

/// Three of five members can be lost and two of four cannot: an even number only adds one that can fail.
fn cluster(members: usize) -> Finding {
    if members == 1 {
        return Finding::new(
            Severity::Note,
            "members",
            "one: with it the store is gone",
            "three members, on three machines, go on without one of them",
        );
    }
    if members % 2 == 0 {
        return Finding::new(
            Severity::Note,
            "members",
            format!("{members}: no more of them may fail than of {}", members - 1),
            "an odd number",
        );
    }
    Finding::fine("members", format!("{members}, of which {} may fail", (members - 1) / 2))
}

fn space(status: &StatusResponse) -> Finding {
    const USUAL_QUOTA: i64 = 2 * 1024 * 1024 * 1024;
    let (used, mebi) = (status.db_size(), 1024 * 1024);
    let told = format!(
        "the database has {} MiB, of which {} are in use",
        used / mebi,
        status.raft_used_db_size() / mebi
    );
    if used < USUAL_QUOTA / 2 {
        return Finding::fine("space", told);
    }
    Finding::new(
        Severity::Warning,
        "space",
        format!("{told}; above its quota (2 GiB unless told otherwise) nothing is written any more"),
        "set --auto-compaction-retention, and defragment",
    )
}

fn untold(check: &'static str, error: &StoreError) -> Finding {
    Finding::new(Severity::Note, check, format!("could not be asked: {error}"), "ask as a user who may")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_no_role_is_told_how_to_get_one() {
        let permit =
            |role| format!("etcdctl role grant-permission --prefix=true {role} readwrite /lease-machines/a/");
        let of = |roles: &[&str]| {
            grant(&roles.iter().map(|role| (*role).to_owned()).collect::<Vec<_>>(), "/lease-machines/a/")
        };
        assert_eq!(of(&["jobs", "others"]), permit("jobs"));
        let none = of(&[]);
        for part in ["etcdctl role add lease-user", &permit("lease-user"), "user grant-role USER lease-user"]
        {
            assert!(none.contains(part), "{none}");
        }
    }

    #[test]
    fn an_old_version_is_an_error() {
        for (found, severity) in [
            ("2.3.8", Severity::Error),
            ("3.3.27", Severity::Error),
            ("3.4.0", Severity::Fine),
            ("3.6.1", Severity::Fine),
        ] {
            let told = version(found);
            assert_eq!((told.severity, told.found), (severity, format!("etcd {found}")));
            assert!(told.mend.is_none_or(|mend| mend.contains("3.4 or later")));
        }
    }
}
