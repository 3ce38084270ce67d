//! Pools: who comes at once, and what is locked meanwhile.

use std::collections::BTreeSet;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use lease_machines::{Gone, OwnerId, Rejection};
use lease_machines_store::conformance::block_on;
use lease_machines_store::{
    Claimed, ErrorKind, MysqlStore, PoolClaim, Released, Resized, ResourceName, SlotLease, SlotRef,
    SlotRenewed, Store, Unclaimed,
};

use crate::blocked::{TTL, harmed, while_blocked};
use crate::help::on_both;
use crate::servers::mysql::{Kind, Server};

on_both! {
    a_slot_that_is_locked_is_passed_over_and_all_locked_is_busy
    an_expiry_of_a_slot_counts_from_after_the_wait
    a_withdrawal_comes_after_a_claim_that_is_under_way
    a_double_of_a_claim_that_is_under_way_gets_the_same_slot
    a_pool_does_not_shrink_in_the_midst_of_a_claim
    a_hundred_clients_at_once_get_slots_of_their_own
    one_slot_that_is_left_and_another_that_is_taken_make_no_full_pool
    a_take_over_that_waited_for_another_epoch_is_not_granted_in_the_old_one
}

fn ids() -> ResourceName {
    ResourceName::new("ids").unwrap()
}

fn claim_of(size: u32, owner: u64, ttl: Duration) -> PoolClaim {
    PoolClaim::new(ids(), size, OwnerId::new(owner), ttl)
}

fn claim(owner: u64) -> PoolClaim {
    claim_of(4, owner, Duration::from_secs(60))
}

#[track_caller]
fn held(answer: Claimed) -> SlotLease {
    match answer {
        Claimed::Granted(held) => held,
        other => panic!("no slot: {other:?}"),
    }
}

/// A store with a pool of four.
fn pool(server: &Server) -> (String, MysqlStore) {
    let (database, url) = server.fresh();
    let store = MysqlStore::open(&url).unwrap();
    assert_eq!(block_on(store.resize_pool(ids(), 4)).unwrap(), Resized::Resized);
    (database, store)
}

fn a_slot_that_is_locked_is_passed_over_and_all_locked_is_busy(kind: Kind) {
    let server = Server::shared(kind);
    let (database, store) = pool(server);
    // One by one, each by its whole key: the rows alone are locked then, and not those that a search comes by.
    let harm = [0, 1]
        .map(|slot| format!("SELECT 1 FROM lease_slot WHERE pool = 'ids' AND slot = {slot} FOR UPDATE"));
    let mut speak = harmed(server, &database, &harm.join(";"));
    assert_eq!(
        held(block_on(store.claim_slot(claim(1))).unwrap()).slot,
        2,
        "the first that nobody has locked"
    );
    assert_eq!(held(block_on(store.claim_slot(claim(2))).unwrap()).slot, 3);
    let answer = block_on(store.claim_slot(claim(3))).unwrap();
    assert_eq!(answer, Claimed::Rejected(Unclaimed::Busy), "two slots are free, and locked");
    speak("COMMIT");
    assert_eq!(held(block_on(store.claim_slot(claim(3))).unwrap()).slot, 0);
    assert_eq!(held(block_on(store.claim_slot(claim(4))).unwrap()).slot, 1);
    let mut speak = harmed(server, &database, "SELECT 1 FROM lease_slot FOR UPDATE");
    let answer = block_on(store.claim_slot(claim(5))).unwrap();
    speak("COMMIT");
    assert!(
        matches!(answer, Claimed::Rejected(Unclaimed::Exhausted { next_chance: Some(_) })),
        "none was free: {answer:?}"
    );
}

fn an_expiry_of_a_slot_counts_from_after_the_wait(kind: Kind) {
    let server = Server::shared(kind);
    for harm in ["SELECT 1 FROM lease_slot FOR UPDATE", "UPDATE lease_slot SET label = 'touched'"] {
        let (database, store) = pool(server);
        let mine = held(block_on(store.claim_slot(claim_of(4, 1, TTL))).unwrap());
        let lease = SlotRef::new(ids(), mine.slot, OwnerId::new(1), mine.token, Some(mine.epoch));
        let late = while_blocked(server, &database, harm, "COMMIT", || {
            block_on(store.renew_slot(lease.clone(), TTL, true)).unwrap()
        });
        let SlotRenewed::Rejected(why) = late else { panic!("{harm}: a lease was revived: {late:?}") };
        assert_eq!(why.reason, Rejection::Expired, "{harm}");
    }
}

/// What a claim of owner 1 has locked and written before it commits.
const HALF_CLAIMED: &str = "SELECT size FROM lease_pool WHERE pool = 'ids' LOCK IN SHARE MODE; \
    UPDATE lease_slot AS t, lease_store AS s SET t.last_issued = 2000000000000000, t.observed = 1, t.asker = 1, t.attempt = 1, \
    t.owner = 1, t.token = 2000000000000000, t.granted_at = 1, t.free_from = 3000000000000000, t.epoch = s.epoch, \
    t.renewed_at = 1, t.renewals = 0 WHERE t.pool = 'ids' AND t.slot = 0";

fn a_withdrawal_comes_after_a_claim_that_is_under_way(kind: Kind) {
    let server = Server::shared(kind);
    let (database, store) = pool(server);
    let answer = while_blocked(server, &database, HALF_CLAIMED, "COMMIT", || {
        block_on(store.withdraw_slot(ids(), OwnerId::new(1))).unwrap()
    });
    assert_eq!(
        block_on(store.slots(ids())).unwrap().holders(),
        0,
        "a withdrawn owner holds a slot, after {answer:?}"
    );
    assert_eq!(answer, Released::Released);
}

fn a_double_of_a_claim_that_is_under_way_gets_the_same_slot(kind: Kind) {
    let server = Server::shared(kind);
    let (database, store) = pool(server);
    let double = while_blocked(server, &database, HALF_CLAIMED, "COMMIT", || {
        held(block_on(store.claim_slot(claim(1))).unwrap())
    });
    assert_eq!((double.slot, double.token.value()), (0, 2_000_000_000_000_000));
    assert_eq!(block_on(store.slots(ids())).unwrap().slots.len(), 1);
}

fn a_pool_does_not_shrink_in_the_midst_of_a_claim(kind: Kind) {
    let server = Server::shared(kind);
    let (database, store) = pool(server);
    let half = HALF_CLAIMED.replace("t.slot = 0", "t.slot = 3");
    let answer =
        while_blocked(server, &database, &half, "COMMIT", || block_on(store.resize_pool(ids(), 1)).unwrap());
    assert!(matches!(answer, Resized::InUse { slot: 3, .. }), "the claim took the last slot: {answer:?}");
}

fn a_hundred_clients_at_once_get_slots_of_their_own(kind: Kind) {
    const CLIENTS: u64 = 100;
    let (_, url) = Server::shared(kind).fresh();
    let stores: Vec<_> =
        (0..10).map(|_| MysqlStore::open(&format!("{url}?connections=4&timeout=60s")).unwrap()).collect();
    let start = Barrier::new(usize::try_from(CLIENTS).unwrap());
    let slots: BTreeSet<u16> = thread::scope(|scope| {
        let clients: Vec<_> = (1..=CLIENTS)
            .map(|owner| {
                let store = &stores[usize::try_from(owner).unwrap() % stores.len()];
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    let claim = claim_of(112, owner, Duration::from_secs(600))
                        .with_identity(format!("worker-{owner}"));
                    held(block_on(store.claim_slot(claim)).unwrap()).slot
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    assert_eq!(slots.len(), 100);
}

/// What a claim saw when it began, and what it sees after a wait, together make a pool that was full; at no instant it was.
fn one_slot_that_is_left_and_another_that_is_taken_make_no_full_pool(kind: Kind) {
    const LOCKED: &str = "SELECT 1 FROM lease_slot WHERE pool = 'ids' AND slot = 0 FOR UPDATE";
    let server = Server::shared(kind);
    let (database, url) = server.fresh();
    let store = MysqlStore::open(&url).unwrap();
    let of = |owner| {
        let mut claim = claim_of(3, owner, Duration::from_secs(60));
        claim.identity = Some("a".to_owned());
        claim
    };
    let first = held(block_on(store.claim_slot(of(1))).unwrap());
    let _ = held(block_on(store.claim_slot(claim_of(3, 2, Duration::from_secs(60)))).unwrap());
    let end = "UPDATE lease_slot SET token = NULL, owner = NULL, free_from = {now} WHERE slot < 2; \
               UPDATE lease_slot SET free_from = {now} + 60000000 WHERE slot = 2; COMMIT"
        .replace("{now}", "CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED)");
    let mut claim = of(3);
    claim.gone = Some(Gone { slot: 0, token: first.token });
    let next = while_blocked(server, &database, LOCKED, &end, || block_on(store.claim_slot(claim)).unwrap());
    assert_eq!(held(next).slot, 0);
}

/// What it saw of the old epoch, the floor of tokens and the stamps that are given out, does not hold any more.
fn a_take_over_that_waited_for_another_epoch_is_not_granted_in_the_old_one(kind: Kind) {
    let server = Server::shared(kind);
    let (database, store) = pool(server);
    let epoch = block_on(store.epoch()).unwrap();
    let mut claim = claim(1);
    claim.identity = Some("a".to_owned());
    assert_eq!(held(block_on(store.claim_slot(claim.clone())).unwrap()).slot, 0);
    let opened = "UPDATE lease_slot SET free_from = CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED) \
                  WHERE pool = 'ids' AND slot = 0; \
                  UPDATE lease_store SET epoch = CAST(epoch ^ 1 AS SIGNED), floor = floor + 4294967296 WHERE id = 1";
    claim.owner = OwnerId::new(2);
    claim.exclusive_identity = true;
    claim.epoch = Some(epoch);
    let told = while_blocked(server, &database, opened, "COMMIT", || block_on(store.claim_slot(claim)));
    let error = told.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NewEpoch { .. }), "{error:?}");
}
