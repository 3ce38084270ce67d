//! etcd. It has a quota of its own and writes nothing beyond it, until an operator has made room and says so; where its disk is
//! full it ends.

use etcd_client::{AlarmAction, AlarmOptions, AlarmType, Client, CompactionOptions, DeleteOptions};
use lease_machines_store::{ErrorKind, Severity, Undecided, migrate};
use tokio::runtime::Builder;

use crate::servers::disk::Disk;
use crate::servers::etcd::{EtcdServer, namespace};
use crate::story::{Story, TIMEOUT, says};

fn story(server: &EtcdServer) -> Story {
    let url = server.url(&namespace());
    migrate(&url).unwrap();
    Story::begin(&format!("{url}?{TIMEOUT}"))
}

pub fn ends_where_its_file_cannot_grow() {
    let disk = Disk::of("256m");
    let mut server = EtcdServer::start_at(|| disk.folder("etcd"), &[]);
    let mut story = story(&server);
    disk.fill();
    let error = story.until_refused();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error:?}");
    disk.clear();
    server.restart();
    story.end();
}

pub fn has_used_up_its_quota() {
    let server = EtcdServer::start_with(&["--quota-backend-bytes", "4194304"]);
    let mut story = story(&server);
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let mut client = runtime
        .block_on(async { Client::connect([format!("127.0.0.1:{}", server.port)], None).await })
        .unwrap();
    let full = runtime.block_on(async {
        for number in 0..64 {
            if let Err(error) = client.put(format!("ballast-{number}"), vec![1; 256 << 10], None).await {
                return error.to_string();
            }
        }
        String::new()
    });
    assert!(full.contains("database space exceeded"), "{full}");
    for _ in 0..5 {
        says(&story.until_refused(), ErrorKind::Storage, Undecided::NotDone, "compact, defragment, disarm");
        says(&story.renew().unwrap_err(), ErrorKind::Storage, Undecided::NotDone, "compact");
    }
    let findings = story.in_time(story.store().doctor()).unwrap();
    assert_eq!((findings[0].severity, findings[0].check), (Severity::Error, "alarms"), "{findings:?}");

    runtime.block_on(async {
        let all = DeleteOptions::new().with_prefix();
        let deleted = client.delete("ballast-", Some(all)).await.unwrap();
        let physical = CompactionOptions::new().with_physical();
        client.compact(deleted.header().unwrap().revision(), Some(physical)).await.unwrap();
        client.defragment().await.unwrap();
        let raised = client.alarm(AlarmAction::Get, AlarmType::None, None).await.unwrap();
        let mut of = AlarmOptions::new();
        of.with_member(raised.alarms()[0].member_id());
        client.alarm(AlarmAction::Deactivate, AlarmType::Nospace, Some(of)).await.unwrap();
    });
    story.end();
}
