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

/// A role for one key where one for all that begins like it is meant, one that may only read, and none at all.
#[test]
fn the_doctor_names_the_rights_that_a_user_lacks_and_who_has_to_be_given_them() {
    let server = EtcdServer::start();
    let space = namespace();
    let prefix = format!("/lease-machines/{space}/");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let permission = |kind| etcd_client::Permission::new(kind, prefix.clone());
    EtcdStore::open(&server.url(&space)).unwrap().migrate().unwrap();
    runtime.block_on(async {
        let mut client = Client::connect([format!("127.0.0.1:{}", server.port)], None).await.unwrap();
        client.user_add("root", "rootsecret", None).await.unwrap();
        client.user_grant_role("root", "root").await.unwrap();
        for (name, rights) in [
            ("whole", Some(permission(PermissionType::Readwrite).with_prefix())),
            ("reader", Some(permission(PermissionType::Read).with_prefix())),
            ("alone", Some(permission(PermissionType::Readwrite))),
            ("nobody", None),
        ] {
            client.user_add(name, "appsecret", None).await.unwrap();
            if let Some(rights) = rights {
                let role = format!("{name}-role");
                client.role_add(role.clone()).await.unwrap();
                client.role_grant_permission(role.clone(), rights).await.unwrap();
                client.user_grant_role(name, role).await.unwrap();
            }
        }
        client.auth_enable().await.unwrap();
    });
    let told = |user: &str| {
        let url = format!("etcd://{user}:appsecret@127.0.0.1:{}/{space}", server.port);
        let findings = block_on(EtcdStore::open(&url).unwrap().doctor()).unwrap();
        assert!(!format!("{findings:?}").contains("secret"), "{findings:?}");
        let told: Vec<_> = findings.into_iter().filter(|finding| finding.check == "rights").collect();
        assert_eq!(told.len(), 1, "{told:?}");
        told.into_iter().next().unwrap()
    };
    assert_eq!(told("whole").severity, Severity::Fine);
    let permit =
        |role: &str| format!("etcdctl role grant-permission --prefix=true {role} readwrite {prefix}");
    for (user, lacking, mend) in [
        ("reader", "may not write", permit("reader-role")),
        ("alone", "may not read and write", permit("alone-role")),
        ("nobody", "may not read and write", permit("lease-user")),
    ] {
        let told = told(user);
        assert_eq!(told.severity, Severity::Error, "{told:?}");
        assert!(told.found.contains(lacking) && told.found.contains(&prefix), "{told:?}");
        assert!(told.mend.as_ref().unwrap().contains(&mend), "{told:?}");
    }
    // What it asked for was not written; and a login that is refused is no question of rights.
    let url = |login: &str| format!("etcd://{login}@127.0.0.1:{}/{space}", server.port);
    let store = EtcdStore::open(&url("whole:appsecret")).unwrap();
    assert_eq!(block_on(store.list(String::new())).unwrap().len(), 0);
    let refused = block_on(EtcdStore::open(&url("whole:wrongsecret")).unwrap().doctor()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Permission, "{refused}");
    let written = runtime.block_on(async {
        let options = etcd_client::ConnectOptions::new().with_user("root", "rootsecret");
        let mut client =
            Client::connect([format!("127.0.0.1:{}", server.port)], Some(options)).await.unwrap();
        client.get(format!("{prefix}doctor"), None).await.unwrap().count()
    });
    assert_eq!(written, 0);
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
