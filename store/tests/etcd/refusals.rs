//! Servers that cannot be used, and what is said of them: never the password, and never too late.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use etcd_client::{Client, MemberAddOptions, PermissionType};
use lease_machines_store::conformance::block_on;
use lease_machines_store::{ErrorKind, EtcdStore, Severity, Store, StoreError, Undecided};

use crate::help::{claim, granted, lease};
use crate::servers::etcd::{EtcdServer, namespace};
use crate::servers::guard::free_port;

/// Asks, and looks how long it takes.
fn error_of(url: &str, limit: Duration) -> StoreError {
    let store = EtcdStore::open(url).unwrap();
    let begun = Instant::now();
    let error = block_on(store.acquire(claim("job", 1))).unwrap_err();
    assert!(begun.elapsed() < limit + Duration::from_secs(5), "it took {:?}", begun.elapsed());
    assert!(!error.to_string().contains("secret") && !format!("{error:?}").contains("secret"), "{error:?}");
    assert!(!format!("{store:?}").contains("secret"));
    error
}

#[test]
fn nobody_listens() {
    let url = format!("etcd://user:secret@127.0.0.1:{}", free_port());
    let error = error_of(&url, Duration::from_secs(5));
    assert_eq!((error.kind(), error.undecided()), (ErrorKind::Unreachable, Undecided::NotDone), "{error}");
    assert!(error.to_string().contains("etcd://127.0.0.1:"), "{error}");
}

#[test]
fn another_member_is_asked_where_one_is_not_there() {
    let server = EtcdServer::shared();
    let url = format!("etcd://127.0.0.1:{},127.0.0.1:{}/{}", free_port(), server.port, namespace());
    let store = EtcdStore::open(&url).unwrap();
    store.migrate().unwrap();
    granted(&store, claim("job", 1));
}

#[test]
fn whoever_says_nothing_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("etcd://127.0.0.1:{}/x?timeout=700ms", listener.local_addr().unwrap().port());
    let error = error_of(&url, Duration::from_millis(700));
    assert_eq!((error.kind(), error.undecided()), (ErrorKind::Unreachable, Undecided::NotDone), "{error}");
}

#[test]
fn what_is_no_etcd_is_told_so() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let _ = client.read(&mut [0; 1024]);
            let _ = client.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let error = error_of(&format!("etcd://127.0.0.1:{port}?timeout=2s"), Duration::from_secs(2));
    assert_eq!(error.undecided(), Undecided::NotDone, "{error}");
}

#[test]
fn logins_and_rights_are_looked_at() {
    let server = EtcdServer::start();
    let (mine, others) = (namespace(), namespace());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut client = Client::connect([format!("127.0.0.1:{}", server.port)], None).await.unwrap();
        client.user_add("root", "rootsecret", None).await.unwrap();
        client.user_grant_role("root", "root").await.unwrap();
        client.role_add("leases").await.unwrap();
        let rights =
            etcd_client::Permission::new(PermissionType::Readwrite, format!("/lease-machines/{mine}/"));
        client.role_grant_permission("leases", rights.with_prefix()).await.unwrap();
        client.user_add("app", "appsecret", None).await.unwrap();
        client.user_grant_role("app", "leases").await.unwrap();
        client.auth_enable().await.unwrap();
    });
    let url = |login: &str, namespace: &str| format!("etcd://{login}127.0.0.1:{}/{namespace}", server.port);
    let store = EtcdStore::open(&url("app:appsecret@", &mine)).unwrap();
    store.migrate().unwrap();
    granted(&store, claim("job", 1));
    let refused = |error: StoreError, part: &str| {
        assert_eq!((error.kind(), error.undecided()), (ErrorKind::Permission, Undecided::Refused), "{error}");
        assert!(error.to_string().contains(part), "{error}");
    };
    refused(error_of(&url("app:wrongsecret@", &mine), Duration::from_secs(5)), "refused the login");
    refused(error_of(&url("", &mine), Duration::from_secs(5)), "refused the login");
    refused(error_of(&url("app:appsecret@", &others), Duration::from_secs(5)), "rights are missing");
}

#[test]
fn keys_of_something_else_are_told_so() {
    let server = EtcdServer::shared();
    let space = namespace();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let put = |value: &str| {
        runtime.block_on(async {
            let mut client = Client::connect([format!("127.0.0.1:{}", server.port)], None).await.unwrap();
            client.put(format!("/lease-machines/{space}/epoch"), value, None).await.unwrap();
        });
    };
    put("what is this?");
    let error = error_of(&server.url(&space), Duration::from_secs(5));
    assert_eq!((error.kind(), error.undecided()), (ErrorKind::Damaged, Undecided::Refused), "{error}");
    assert!(error.to_string().contains("/epoch"), "{error}");
    put("version=99&epoch=0123456789abcdef");
    let error = error_of(&server.url(&space), Duration::from_secs(5));
    assert_eq!((error.kind(), error.undecided()), (ErrorKind::Schema, Undecided::Refused), "{error}");
}

#[test]
fn a_prune_that_fails_on_its_way_is_unknown() {
    let server = EtcdServer::shared();
    let space = namespace();
    let store = EtcdStore::open(&server.url(&space)).unwrap();
    store.migrate().unwrap();
    let held = lease("job", 1, granted(&store, claim("job", 1)));
    let _ = block_on(store.release(held, Default::default())).unwrap();
    // Resources are forgotten first, and then holds.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut client = Client::connect([format!("127.0.0.1:{}", server.port)], None).await.unwrap();
        client.put(format!("/lease-machines/{space}/h/a"), "what is this?", None).await.unwrap();
    });
    let error = block_on(store.prune(Duration::ZERO)).unwrap_err();
    assert_eq!((error.kind(), error.undecided()), (ErrorKind::Damaged, Undecided::Unknown), "{error}");
    let error = block_on(store.prune(Duration::ZERO)).unwrap_err();
    assert_eq!((error.kind(), error.undecided()), (ErrorKind::Damaged, Undecided::Refused), "{error}");
}

/// One that is being added has no vote yet. It tells what it is, and passes nothing on.
#[test]
fn the_doctor_sees_a_learner() {
    let [own, learners] = [free_port(), free_port()];
    let first = format!("one=http://127.0.0.1:{own}");
    let mut member = EtcdServer::member("one", own, own, &first, &[]);
    member.spawn();
    assert!(member.is_up());
    let space = namespace();
    EtcdStore::open(&member.url(&space)).unwrap().migrate().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let is_learner = |port: u16| {
        let asked = runtime
            .block_on(async { Client::connect([format!("127.0.0.1:{port}")], None).await?.status().await });
        asked.is_ok_and(|status| status.is_learner())
    };
    let url = format!("http://127.0.0.1:{learners}");
    runtime.block_on(async {
        let mut client = Client::connect([format!("127.0.0.1:{}", member.port)], None).await.unwrap();
        let learner = MemberAddOptions::new().with_is_learner();
        client.member_add([url.as_str()], Some(learner)).await.unwrap();
    });
    let both = format!("{first},two={url}");
    let joins = &["--initial-cluster-state", "existing"];
    let learner = {
        let mut learner = EtcdServer::member("two", learners, learners, &both, joins);
        learner.spawn();
        learner
    };
    let begun = Instant::now();
    while !is_learner(learner.port) {
        assert!(begun.elapsed() < Duration::from_secs(30), "it does not join");
        thread::sleep(Duration::from_millis(20));
    }
    let error = error_of(&learner.url(&space), Duration::from_secs(5));
    assert_eq!((error.kind(), error.undecided()), (ErrorKind::Unreachable, Undecided::NotDone), "{error}");
    let findings = block_on(EtcdStore::open(&learner.url(&space)).unwrap().doctor()).unwrap();
    for check in ["role", "epoch"] {
        let told = findings.iter().find(|finding| finding.check == check).unwrap();
        assert_eq!(told.severity, Severity::Error, "{findings:?}");
        assert!(told.found.contains("learner"), "{told:?}");
    }
}
