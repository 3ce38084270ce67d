//! Three members: one that leads and dies, one that is cut off, and disks that were put back.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use lease_machines_store::conformance::block_on;
use lease_machines_store::{
    Acquired, Ending, ErrorKind, EtcdStore, LeaseRef, Released, Renewed, Store, StoreError, Undecided,
};

use crate::help::{claim, claim_for, granted, lease};
use crate::servers::etcd::namespace;
use crate::servers::etcd_cluster::EtcdCluster;

const TTL: Duration = Duration::from_secs(60);
/// How long the members may take to agree again; only a failure takes it.
const PATIENCE: Duration = Duration::from_secs(60);

fn store(cluster: &EtcdCluster, members: &[usize], namespace: &str) -> EtcdStore {
    EtcdStore::open(&format!("{}?timeout=2s&max_ttl=1h", cluster.url(members, namespace))).unwrap()
}

/// Asks until there is a decision, as a holder does. What is refused is nothing to ask again for.
#[track_caller]
fn decided<T>(mut ask: impl FnMut() -> Result<T, StoreError>) -> T {
    let begun = Instant::now();
    loop {
        match ask() {
            Ok(answer) => return answer,
            Err(error) => {
                assert_ne!(error.undecided(), Undecided::Refused, "{error}");
                assert!(begun.elapsed() < PATIENCE, "{error}");
            }
        }
    }
}

fn renewed(store: &EtcdStore, held: &LeaseRef) -> Result<Renewed, StoreError> {
    block_on(store.renew(held.clone(), TTL))
}

#[test]
fn a_leader_that_dies_takes_no_lease_with_it() {
    let mut cluster = EtcdCluster::start();
    let space = namespace();
    let store = store(&cluster, &[0, 1, 2], &space);
    store.migrate().unwrap();
    let epoch = block_on(store.epoch()).unwrap();
    let mut held = lease("job", 1, granted(&store, claim("job", 1)));
    for round in 2..5 {
        let leader = cluster.leader(&[0, 1, 2]);
        cluster.members[leader].kill();
        let answer = decided(|| renewed(&store, &held));
        assert!(matches!(answer, Renewed::Renewed(_)), "round {round}: {answer:?}");
        let other = decided(|| block_on(store.acquire(claim("job", 100 + round))));
        assert!(matches!(other, Acquired::Rejected(_)), "round {round}: {other:?}");
        let back = decided(|| block_on(store.release(held.clone(), Ending::default())));
        assert!(matches!(back, Released::Released | Released::AlreadyReleased), "{back:?}");
        let mut attempt = 0;
        let next = decided(|| {
            attempt += 1;
            let claim = claim("job", round).with_attempt(attempt);
            block_on(store.reacquire(claim))
        });
        let Acquired::Granted(grant) = next else { panic!("round {round}: {next:?}") };
        assert!(grant.token > held.token, "round {round}");
        held = lease("job", round, grant);
        cluster.members[leader].restart();
    }
    assert_eq!(decided(|| block_on(store.epoch())), epoch);
}

#[test]
fn members_in_the_minority_decide_nothing() {
    let cluster = EtcdCluster::start();
    let space = namespace();
    store(&cluster, &[0, 1, 2], &space).migrate().unwrap();
    let alone = cluster.leader(&[0, 1, 2]);
    let others: Vec<usize> = (0..3).filter(|member| *member != alone).collect();
    let (cut_off, connected) = (store(&cluster, &[alone], &space), store(&cluster, &others, &space));
    let long = lease("long", 1, granted(&cut_off, claim("long", 1)));
    let short = lease("short", 2, granted(&cut_off, claim_for("short", 2, Duration::from_secs(1))));
    cluster.isolate(alone);
    cluster.leader(&others);
    // What the old leader is asked, it cannot agree upon.
    let answers = [
        renewed(&cut_off, &short).map(drop),
        block_on(cut_off.acquire(claim("new", 3))).map(drop),
        block_on(cut_off.inspect(long.resource.clone())).map(drop),
    ];
    for answer in answers {
        let error = answer.unwrap_err();
        assert_ne!(error.undecided(), Undecided::Refused, "{error}");
    }
    // The others go on: what is held stays so, what has run out is free, and they know the same history.
    let told = decided(|| block_on(connected.acquire(claim("long", 4))));
    assert!(matches!(told, Acquired::Rejected(_)), "{told:?}");
    let begun = Instant::now();
    let next = loop {
        match decided(|| block_on(connected.acquire(claim("short", 5)))) {
            Acquired::Granted(grant) => break grant,
            other => assert!(begun.elapsed() < PATIENCE, "{other:?}"),
        }
    };
    assert!(next.token > short.token);
    cluster.heal();
    let late = decided(|| renewed(&cut_off, &short));
    assert!(matches!(late, Renewed::Rejected(_)), "it was granted to another: {late:?}");
    assert!(matches!(decided(|| renewed(&cut_off, &long)), Renewed::Renewed(_)));
    // A claim that nobody answered may have come through in the end; its owner takes it back.
    let back = decided(|| block_on(cut_off.withdraw(claim("new", 3).resource, claim("new", 3).owner)));
    assert!(matches!(back, Released::Released | Released::Rejected(_)), "{back:?}");
    assert!(matches!(decided(|| block_on(connected.acquire(claim("new", 6)))), Acquired::Granted(_)));
}

fn copy_of(data: &Path) -> PathBuf {
    data.with_extension("copy")
}

fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    assert!(Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap().success());
}

#[test]
fn members_whose_disks_were_put_back_are_in_the_past() {
    let mut cluster = EtcdCluster::start();
    let space = namespace();
    let store = store(&cluster, &[0, 1, 2], &space);
    store.migrate().unwrap();
    granted(&store, claim("before", 1));
    cluster.restart_all(|members| members.iter().for_each(|one| copy(&one.data(), &copy_of(&one.data()))));
    let lost = lease("job", 2, {
        let acquired = decided(|| block_on(store.reacquire(claim("job", 2).with_attempt(2))));
        let Acquired::Granted(grant) = acquired else { panic!("{acquired:?}") };
        grant
    });
    let put_back = |one: &crate::servers::etcd::EtcdServer| copy(&copy_of(&one.data()), &one.data());
    // All of them have lost it, and whoever knew of a later revision sees that.
    cluster.restart_all(|members| members.iter().for_each(put_back));
    let begun = Instant::now();
    let error = loop {
        match renewed(&store, &lost) {
            Err(error) if matches!(error.kind(), ErrorKind::NewEpoch { .. }) => break error,
            Err(error) if begun.elapsed() < PATIENCE => {
                assert_ne!(error.undecided(), Undecided::Refused, "{error}")
            }
            other => panic!("{other:?}"),
        }
    };
    assert!(error.to_string().contains("every lease of that epoch is lost"), "{error}");
    let waits = block_on(store.acquire(claim("job", 3))).unwrap_err();
    assert_eq!(waits.undecided(), Undecided::NotDone, "{waits}");
}
