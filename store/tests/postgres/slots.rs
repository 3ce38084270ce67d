//! Pools: who comes at once, what is locked meanwhile, and how much is written.

use std::collections::BTreeSet;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use lease_machines::{Gone, OwnerId, Rejection};
use lease_machines_store::conformance::block_on;
use lease_machines_store::{
    Claimed, ErrorKind, PoolClaim, PostgresStore, Released, Resized, ResourceName, SlotLease, SlotRef,
    SlotRenewed, Store, Unclaimed,
};

use crate::blocked::{TTL, harmed, patient, while_blocked};
use crate::servers::postgres::Server;

const DAY: Duration = Duration::from_secs(24 * 3600);

fn ids() -> ResourceName {
    ResourceName::new("ids").unwrap()
}

fn claim(owner: u64) -> PoolClaim {
    claim_of(4, owner, Duration::from_secs(60))
}

fn claim_of(size: u32, owner: u64, ttl: Duration) -> PoolClaim {
    PoolClaim::new(ids(), size, OwnerId::new(owner), ttl)
}

#[track_caller]
fn held(answer: Claimed) -> SlotLease {
    match answer {
        Claimed::Granted(held) => held,
        other => panic!("no slot: {other:?}"),
    }
}

fn slot_ref(owner: u64, held: SlotLease) -> SlotRef {
    SlotRef::new(ids(), held.slot, OwnerId::new(owner), held.token, Some(held.epoch))
}

/// Has 500 clients claim a slot at one moment, over 80 connections.
fn all_at_once(url: &str, of: impl Fn(u64) -> PoolClaim + Sync) -> Vec<Claimed> {
    const CLIENTS: u64 = 500;
    let stores: Vec<_> = (0..20)
        .map(|_| Arc::new(PostgresStore::open(&format!("{url}&connections=4&timeout=60s")).unwrap()))
        .collect();
    for store in &stores {
        assert!(block_on(store.epoch()).is_ok());
    }
    let start = Barrier::new(usize::try_from(CLIENTS).unwrap());
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let store = &stores[usize::try_from(client).unwrap() % stores.len()];
                let (of, start) = (&of, &start);
                scope.spawn(move || {
                    start.wait();
                    block_on(store.claim_slot(of(client))).unwrap()
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    })
}

/// All rows that were ever written in a schema, by connections that are closed.
fn written(schema: &str) -> u64 {
    let server = Server::shared();
    let begun = Instant::now();
    // Who leaves has told the server's statistics what it did. Those of other tests come and go as they like.
    let here = format!(
        "SELECT pid FROM pg_stat_activity WHERE query LIKE '%{schema}%lease_claim_slot%' AND pid <> pg_backend_pid()"
    );
    while !server.sql(&here).is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(60), "connections stay open");
        thread::sleep(Duration::from_millis(20));
    }
    let count = format!(
        "SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_user_tables WHERE schemaname = '{schema}'"
    );
    server.sql(&count).first().and_then(|count| count.parse().ok()).unwrap_or(0)
}

#[test]
fn five_hundred_clients_at_once_get_slots_of_their_own_for_one_write_each() {
    let (schema, url) = Server::shared().fresh();
    let worker = |client: u64, life: u64| {
        let claim = PoolClaim::new(ids(), 512, OwnerId::new(life * 1_000 + client), DAY / 3);
        claim.with_identity(format!("worker-{client}")).with_id_time()
    };
    {
        let store = PostgresStore::open(&url).unwrap();
        assert_eq!(block_on(store.resize_pool(ids(), 512)).unwrap(), Resized::Resized);
    }
    let before = written(&schema);
    let answers = all_at_once(&url, |client| worker(client, 1));
    let per_claim = (written(&schema) - before) as f64 / 500.0;
    println!("{per_claim} rows written per claim");
    assert!((1.0..=1.2).contains(&per_claim), "{per_claim} rows were written per claim");
    let first: Vec<SlotLease> = answers.into_iter().map(held).collect();
    assert_eq!(first.iter().map(|held| held.slot).collect::<BTreeSet<_>>().len(), 500);

    // All of them are started again, and each has its own slot back, also while it cools down.
    let store = PostgresStore::open(&url).unwrap();
    for (client, held) in (0..).zip(&first) {
        let lease = slot_ref(1_000 + client, *held);
        assert_eq!(block_on(store.release_slot(lease, None)).unwrap(), Released::Released);
    }
    let again = all_at_once(&url, |client| worker(client, 2).with_attempt(1));
    for (first, again) in first.iter().zip(again.into_iter().map(held)) {
        assert_eq!(first.slot, again.slot);
        assert!(again.token > first.token);
        let (before, after) = (first.window.unwrap(), again.window.unwrap());
        assert!(after.after >= before.until, "{after:?} begins within {before:?}");
    }
    // Nobody else gets more than the twelve that are left.
    let strangers =
        all_at_once(&url, |client| PoolClaim::new(ids(), 512, OwnerId::new(9_000 + client), DAY / 3));
    let granted: Vec<_> = strangers.iter().filter(|answer| matches!(answer, Claimed::Granted(_))).collect();
    assert_eq!(granted.len(), 12);
    for answer in &strangers {
        let fine = matches!(
            answer,
            Claimed::Granted(_)
                | Claimed::Rejected(Unclaimed::Busy | Unclaimed::Exhausted { next_chance: Some(_) })
        );
        assert!(fine, "{answer:?}");
    }
}

#[test]
fn a_slot_that_is_locked_is_passed_over_and_all_locked_is_busy() {
    locked_slots_are_passed_over(|| Server::shared().fresh().0);
}

/// In schemas that are set up in this way.
pub fn locked_slots_are_passed_over(fresh: impl Fn() -> String) {
    let schema = fresh();
    let store = patient(&schema);
    assert_eq!(block_on(store.resize_pool(ids(), 4)).unwrap(), Resized::Resized);
    let say = harmed(&schema, "SELECT FROM {schema}.lease_slot WHERE slot < 2 FOR UPDATE");
    assert_eq!(
        held(block_on(store.claim_slot(claim(1))).unwrap()).slot,
        2,
        "the first that nobody has locked"
    );
    say("SELECT FROM pg_sleep(0)");
    assert_eq!(held(block_on(store.claim_slot(claim(2))).unwrap()).slot, 3);
    let answer = block_on(store.claim_slot(claim(3))).unwrap();
    assert_eq!(answer, Claimed::Rejected(Unclaimed::Busy), "two slots are free, and locked");
    say("COMMIT");
    assert_eq!(held(block_on(store.claim_slot(claim(3))).unwrap()).slot, 0);
    assert_eq!(held(block_on(store.claim_slot(claim(4))).unwrap()).slot, 1);
    let say = harmed(&schema, "SELECT FROM {schema}.lease_slot FOR UPDATE");
    let answer = block_on(store.claim_slot(claim(5))).unwrap();
    say("COMMIT");
    assert!(
        matches!(answer, Claimed::Rejected(Unclaimed::Exhausted { next_chance: Some(_) })),
        "none was free: {answer:?}"
    );
}

#[test]
fn an_expiry_of_a_slot_counts_from_after_the_wait() {
    expiry_of_a_slot_counts_from_after_the_wait(|| Server::shared().fresh().0);
}

/// In schemas that are set up in this way.
pub fn expiry_of_a_slot_counts_from_after_the_wait(fresh: impl Fn() -> String) {
    for harm in
        ["SELECT FROM {schema}.lease_slot FOR UPDATE", "UPDATE {schema}.lease_slot SET label = 'touched'"]
    {
        let schema = fresh();
        let store = patient(&schema);
        let mine = held(block_on(store.claim_slot(claim_of(4, 1, TTL))).unwrap());
        let lease = slot_ref(1, mine);
        let late = while_blocked(&schema, harm, "COMMIT", || {
            block_on(store.renew_slot(lease.clone(), TTL, true)).unwrap()
        });
        let SlotRenewed::Rejected(why) = late else { panic!("{harm}: a lease was revived: {late:?}") };
        assert_eq!(why.reason, Rejection::Expired, "{harm}");
    }
}

#[test]
fn a_take_over_waits_for_the_holder_and_lasts_from_after_the_wait() {
    let schema = Server::shared().fresh().0;
    let store = patient(&schema);
    let pod = |owner: u64, ttl: Duration| {
        claim_of(4, owner, ttl).with_identity("pod-0").with_exclusive_identity().with_id_time()
    };
    let mine = held(block_on(store.claim_slot(pod(1, TTL))).unwrap());
    let taken = while_blocked(&schema, "SELECT FROM {schema}.lease_slot FOR UPDATE", "COMMIT", || {
        held(block_on(store.claim_slot(pod(2, 3 * TTL))).unwrap())
    });
    assert!(taken.slot == mine.slot && taken.token > mine.token, "{taken:?}");
    assert!(taken.wall >= mine.wall + TTL, "decided at {:?}, begun at {:?}", taken.wall, mine.wall);
    let window = taken.window.unwrap();
    assert!(
        window.after >= mine.window.unwrap().until && window.until >= taken.wall + taken.ttl,
        "{window:?}"
    );
}

/// A claim of owner 1, as its function answers, in a transaction that is not committed.
fn half_claimed(schema: &str) -> impl Fn(&str) + use<> {
    harmed(
        schema,
        "SELECT FROM {schema}.lease_claim_slot_1('ids', 4, 0, 3, 1, 60000000, 1, NULL, 30000000, NULL, NULL, false, \
         NULL, NULL, false, false, 100, 5000)",
    )
}

/// Has something asked that has to wait until [`half_claimed`] is committed.
fn behind_a_claim<T: Send>(schema: &str, asked: impl FnOnce() -> T + Send) -> T {
    let say = half_claimed(schema);
    let waiting = format!(
        "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%\"{schema}\".%'"
    );
    thread::scope(|scope| {
        let asking = scope.spawn(asked);
        let begun = Instant::now();
        while Server::shared().sql(&waiting).is_empty() && !asking.is_finished() {
            assert!(begun.elapsed() < Duration::from_secs(20), "nobody waits for the claim");
            thread::sleep(Duration::from_millis(5));
        }
        say("COMMIT");
        asking.join().unwrap()
    })
}

#[test]
fn a_withdrawal_comes_before_or_after_a_claim() {
    withdrawal_comes_before_or_after_a_claim(|| Server::shared().fresh().0);
}

/// In schemas that are set up in this way.
pub fn withdrawal_comes_before_or_after_a_claim(fresh: impl Fn() -> String) {
    let schema = fresh();
    let store = patient(&schema);
    assert_eq!(block_on(store.resize_pool(ids(), 4)).unwrap(), Resized::Resized);
    let answer = behind_a_claim(&schema, || block_on(store.withdraw_slot(ids(), OwnerId::new(1))).unwrap());
    let seen = block_on(store.slots(ids())).unwrap();
    assert_eq!(seen.holders(), 0, "a withdrawn owner holds a slot, after {answer:?}");
    assert_eq!(answer, Released::Released);
}

#[test]
fn a_double_of_a_claim_that_is_under_way_gets_the_same_slot() {
    let (schema, _) = Server::shared().fresh();
    let store = patient(&schema);
    assert_eq!(block_on(store.resize_pool(ids(), 4)).unwrap(), Resized::Resized);
    let double = behind_a_claim(&schema, || held(block_on(store.claim_slot(claim(1))).unwrap()));
    let seen = block_on(store.slots(ids())).unwrap();
    let slots: Vec<_> = seen.slots.iter().map(|slot| (slot.slot, slot.last_issued)).collect();
    assert_eq!(slots, [(double.slot, Some(double.token))]);
}

#[test]
fn a_pool_does_not_shrink_in_the_midst_of_a_claim() {
    let (schema, _) = Server::shared().fresh();
    let store = patient(&schema);
    assert_eq!(block_on(store.resize_pool(ids(), 4)).unwrap(), Resized::Resized);
    let answer = behind_a_claim(&schema, || block_on(store.resize_pool(ids(), 1)).unwrap());
    assert_eq!(answer, Resized::Resized, "the claim took the first slot");
    let last = block_on(store.claim_slot(claim_of(1, 2, TTL))).unwrap();
    assert!(matches!(last, Claimed::Rejected(Unclaimed::Exhausted { .. })), "{last:?}");
}

#[test]
fn fifty_first_claims_at_once_make_one_pool() {
    let (_, url) = Server::shared().fresh();
    let stores: Vec<_> = (0..10).map(|_| PostgresStore::open(&url).unwrap()).collect();
    let slots: BTreeSet<u16> = thread::scope(|scope| {
        let clients: Vec<_> = (1..=50)
            .map(|owner| {
                let store = &stores[usize::try_from(owner).unwrap() % stores.len()];
                scope.spawn(move || {
                    let claim = PoolClaim::new(ids(), 64, OwnerId::new(owner), Duration::from_secs(60));
                    held(block_on(store.claim_slot(claim)).unwrap()).slot
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    assert_eq!(slots.len(), 50);
}

/// What a claim saw when it began, and what it sees after a wait, together make a pool that was full; at no instant it was.
#[test]
fn one_slot_that_is_left_and_another_that_is_taken_make_no_full_pool() {
    const LOCKED: &str = "SELECT FROM {schema}.lease_slot WHERE slot = 0 FOR UPDATE";
    let (schema, _) = Server::shared().fresh();
    let store = patient(&schema);
    let of = |owner| {
        let mut claim = claim_of(3, owner, Duration::from_secs(60));
        claim.identity = Some("a".to_owned());
        claim
    };
    let first = held(block_on(store.claim_slot(of(1))).unwrap());
    let _ = held(block_on(store.claim_slot(claim_of(3, 2, Duration::from_secs(60)))).unwrap());
    let end = format!(
        "UPDATE {schema}.lease_slot SET token = NULL, owner = NULL, free_from = {{now}} WHERE slot < 2; \
         UPDATE {schema}.lease_slot SET free_from = {{now}} + 60000000 WHERE slot = 2; COMMIT"
    );
    let end = end.replace("{now}", "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint");
    let mut claim = of(3);
    claim.gone = Some(Gone { slot: 0, token: first.token });
    let next = while_blocked(&schema, LOCKED, &end, || block_on(store.claim_slot(claim)).unwrap());
    assert_eq!(held(next).slot, 0);
}

/// What it saw of the old epoch, the floor of tokens and the stamps that are given out, does not hold any more.
#[test]
fn a_take_over_that_waited_for_another_epoch_is_not_granted_in_the_old_one() {
    let (schema, _) = Server::shared().fresh();
    let store = patient(&schema);
    let epoch = block_on(store.epoch()).unwrap();
    let mut claim = claim(1);
    claim.identity = Some("a".to_owned());
    assert_eq!(held(block_on(store.claim_slot(claim.clone())).unwrap()).slot, 0);
    let opened = "UPDATE {schema}.lease_slot SET free_from = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint \
                  WHERE slot = 0; \
                  UPDATE {schema}.lease_store SET epoch = epoch # 1, floor = floor + 4294967296";
    claim.owner = OwnerId::new(2);
    claim.exclusive_identity = true;
    claim.epoch = Some(epoch);
    let told = while_blocked(&schema, opened, "COMMIT", || block_on(store.claim_slot(claim)));
    let error = told.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NewEpoch { .. }), "{error:?}");
}

#[test]
fn a_pool_does_not_shrink_in_the_midst_of_a_renewal() {
    const RENEWED: &str =
        "SELECT FROM {schema}.lease_renew_slot_1('ids', 3, 4, {token}, 60000000, NULL, false, 100, 5000)";
    let (schema, _) = Server::shared().fresh();
    let store = patient(&schema);
    let taken: Vec<_> =
        (1..=4).map(|owner| held(block_on(store.claim_slot(claim_of(4, owner, TTL))).unwrap())).collect();
    let last = taken[3];
    assert_eq!(last.slot, 3);
    let renewed = RENEWED.replace("{token}", &last.token.value().to_string());
    let told = while_blocked(&schema, &renewed, "COMMIT", || {
        // The term that it sees is over by then.
        thread::sleep(TTL);
        block_on(store.resize_pool(ids(), 2)).unwrap()
    });
    assert!(matches!(told, Resized::InUse { slot: 3, .. }), "{told:?}");
}
