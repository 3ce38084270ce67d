//! A row that somebody keeps locked for longer than a lease on it lasts: the clock is read after the wait.

use std::thread;
use std::time::{Duration, Instant};

use lease_machines::{OwnerId, Rejection};
use lease_machines_store::conformance::block_on;
use lease_machines_store::{Acquired, ErrorKind, LeaseRef, PostgresStore, Renewed, Store, Undecided};

use crate::conformance::InSchema;
use crate::help::{claim, claim_for, granted, lease};
use crate::servers::postgres::{Server, runtime};

pub const TTL: Duration = Duration::from_secs(2);

/// Begins a transaction with something in it, and gives what says more in it.
pub fn harmed(schema: &str, harm: &str) -> impl Fn(&str) + use<> {
    let blocker = runtime().block_on(Server::shared().client("postgres")).unwrap();
    let say = move |text: &str| runtime().block_on(blocker.batch_execute(text)).unwrap();
    say(&format!("BEGIN; {}", harm.replace("{schema}", schema)));
    say
}

/// A store that takes any answer for one in time: what is looked at is what the server decided, and when.
pub fn patient(schema: &str) -> PostgresStore {
    InSchema::open(schema, true).unwrap()
}

/// Does something to the row in a transaction, has `asked` begin meanwhile, and ends the transaction when the lease is
/// over and the request is seen to wait.
pub fn while_blocked<T: Send>(schema: &str, harm: &str, end: &str, asked: impl FnOnce() -> T + Send) -> T {
    behind(TTL + Duration::from_millis(100), schema, harm, end, asked)
}

/// The same, as soon as that has taken so long.
pub fn behind<T: Send>(
    least: Duration,
    schema: &str,
    harm: &str,
    end: &str,
    asked: impl FnOnce() -> T + Send,
) -> T {
    let server = Server::shared();
    let say = harmed(schema, harm);
    let waiting = format!(
        "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%\"{schema}\".%'"
    );
    thread::scope(|scope| {
        let asking = scope.spawn(asked);
        let begun = Instant::now();
        while begun.elapsed() < least || server.sql(&waiting).is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(20), "nobody waits for the row");
            thread::sleep(Duration::from_millis(10));
        }
        say(end);
        asking.join().unwrap()
    })
}

pub const LOCKED: &str = "SELECT FROM {schema}.lease_row FOR UPDATE";
const UPDATED: &str = "UPDATE {schema}.lease_row SET label = 'touched'";
const INSERTED: &str = "INSERT INTO {schema}.lease_row (name, last_issued, observed) VALUES ('job', 0, 0)";

#[test]
fn an_expiry_counts_from_after_the_wait() {
    expiry_counts_from_after_the_wait(|| Server::shared().fresh().0);
}

/// In schemas that are set up in this way.
pub fn expiry_counts_from_after_the_wait(fresh: impl Fn() -> String) {
    for (harm, end) in [(LOCKED, "COMMIT"), (UPDATED, "COMMIT"), (UPDATED, "ROLLBACK")] {
        let schema = fresh();
        let store = patient(&schema);
        let held = granted(&store, claim_for("job", 1, TTL));
        let held = lease("job", 1, held);
        let late = while_blocked(&schema, harm, end, || block_on(store.renew(held.clone(), TTL)).unwrap());
        let Renewed::Rejected(why) = late else { panic!("{harm} {end}: a lease was revived: {late:?}") };
        assert_eq!(why.reason, Rejection::Expired, "{harm} {end}");
    }
}

#[test]
fn a_grant_lasts_from_after_the_wait() {
    grant_lasts_from_after_the_wait(|| Server::shared().fresh().0);
}

/// In schemas that are set up in this way.
pub fn grant_lasts_from_after_the_wait(fresh: impl Fn() -> String) {
    for (harm, end) in [
        (LOCKED, "COMMIT"),
        (UPDATED, "COMMIT"),
        (UPDATED, "ROLLBACK"),
        (INSERTED, "COMMIT"),
        (INSERTED, "ROLLBACK"),
    ] {
        let schema = fresh();
        let store = patient(&schema);
        if harm != INSERTED {
            let held = granted(&store, claim_for("job", 1, TTL));
            assert!(held.token.value() > 0);
        }
        let next = while_blocked(&schema, harm, end, || {
            // Without the check that the answer comes in time, which would hide a clock that was read before the wait.
            block_on(store.acquire(claim_for("job", 2, Duration::from_secs(9)))).unwrap()
        });
        let Acquired::Granted(grant) = next else { panic!("{harm} {end}: {next:?}") };
        let left = block_on(store.inspect(claim("job", 2).resource)).unwrap().occupant.unwrap().remaining;
        assert!(
            left > Duration::from_secs(9) - TTL,
            "{harm} {end}: of 9 s, {left:?} were left after the wait"
        );
        assert_eq!(grant.ttl, Duration::from_secs(9));
    }
}

#[test]
fn a_first_grant_and_a_withdrawal_come_one_after_the_other() {
    let (schema, url) = Server::shared().fresh();
    let store = PostgresStore::open(&url).unwrap();
    let answer = while_blocked(&schema, INSERTED, "ROLLBACK", || {
        thread::scope(|scope| {
            let acquire = scope.spawn(|| block_on(store.acquire(claim("job", 1))));
            let withdraw =
                scope.spawn(|| block_on(store.withdraw(claim("job", 1).resource, OwnerId::new(1))));
            (acquire.join().unwrap(), withdraw.join().unwrap())
        })
    });
    assert!(answer.1.is_ok(), "{answer:?}");
    let left = block_on(store.inspect(claim("job", 1).resource)).unwrap();
    assert!(left.occupant.is_none(), "a withdrawn owner holds it, after {answer:?}");
}

#[test]
fn a_lock_is_waited_for_no_longer_than_the_caller_allows() {
    let (schema, url) = Server::shared().fresh();
    let store = PostgresStore::open(&format!("{url}&timeout=500ms")).unwrap();
    let held: LeaseRef = lease("job", 1, granted(&store, claim("job", 1)));
    let say = harmed(&schema, LOCKED);
    let error = block_on(store.renew(held.clone(), TTL)).unwrap_err();
    say("COMMIT");
    assert_eq!(error.undecided(), Undecided::NotDone, "{error:?}");
    assert!(matches!(block_on(store.renew(held, TTL)).unwrap(), Renewed::Renewed(_)));
}

#[test]
fn renewals_of_many_skip_what_is_locked_and_ask_for_it_alone() {
    let server = Server::shared();
    let (schema, url) = server.fresh();
    let store = PostgresStore::open(&url).unwrap();
    let leases: Vec<_> = ["a", "b", "c"]
        .map(|name| (lease(name, 1, granted(&store, claim(name, 1))), Duration::from_secs(70)))
        .into();
    let waiting = format!(
        "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%\"{schema}\".%'"
    );
    let begun = Instant::now();
    loop {
        let say = harmed(&schema, "SELECT FROM {schema}.lease_row WHERE name = 'b' FOR UPDATE");
        let answers = thread::scope(|scope| {
            let asking = scope.spawn(|| block_on(store.renew_many(leases.clone())).unwrap());
            while !asking.is_finished() && server.sql(&waiting).is_empty() {
                thread::sleep(Duration::from_millis(1));
            }
            say("COMMIT");
            asking.join().unwrap()
        });
        for place in [0, 2] {
            assert!(matches!(answers[place], Ok(Renewed::Renewed(_))), "{place}: {answers:?}");
        }
        match &answers[1] {
            Ok(Renewed::Renewed(_)) => break,
            // It waits for a moment alone, and this test may have been too slow to see it.
            Err(error) if error.undecided() == Undecided::NotDone => {}
            other => panic!("{other:?}"),
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "what was locked is not asked for again");
    }
}

/// A row that stays locked for as long as the server is asked holds no other lease up until that is over.
#[test]
fn a_lease_that_stays_locked_keeps_no_other_renewal_from_being_told_in_time() {
    let (schema, url) = Server::shared().fresh();
    let store = PostgresStore::open(&url).unwrap();
    let ttl = Duration::from_secs(3);
    let leases: Vec<_> = (0..50)
        .map(|n| {
            let name = format!("{n:02}");
            (lease(&name, 1, granted(&store, claim_for(&name, 1, ttl))), ttl)
        })
        .collect();
    let say = harmed(&schema, "SELECT FROM {schema}.lease_row WHERE name IN ('00', '25') FOR UPDATE");
    let begun = Instant::now();
    let answers = block_on(store.renew_many(leases)).unwrap();
    let took = begun.elapsed();
    say("COMMIT");
    assert!(took < ttl, "they were told after {took:?}, when they were over");
    for (n, answer) in answers.iter().enumerate() {
        match answer {
            Err(error) if n == 0 || n == 25 => {
                assert_eq!(
                    (error.kind(), error.undecided()),
                    (ErrorKind::Busy, Undecided::NotDone),
                    "{n}: {error:?}"
                );
            }
            Ok(Renewed::Renewed(grant)) if n != 0 && n != 25 => assert_eq!(grant.ttl, ttl, "{n}"),
            other => panic!("{n}: {other:?}"),
        }
    }
}

#[test]
fn a_call_ends_in_time_however_many_statements_it_takes() {
    let (schema, url) = Server::shared().fresh();
    let store = PostgresStore::open(&format!("{url}&timeout=3s")).unwrap();
    let leases: Vec<_> =
        (0..20).map(|n| (lease(&n.to_string(), 1, granted(&store, claim(&n.to_string(), 1))), TTL)).collect();
    let say = harmed(&schema, LOCKED);
    let begun = Instant::now();
    let answers = block_on(store.renew_many(leases.clone())).unwrap();
    // Each by itself would wait for seconds.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert!(answers.iter().all(Result::is_err), "{answers:?}");
    assert_eq!(answers[0].as_ref().unwrap_err().undecided(), Undecided::NotDone, "{answers:?}");
    say("COMMIT");
    let answers = block_on(store.renew_many(leases)).unwrap();
    assert!(answers.iter().all(|answer| matches!(answer, Ok(Renewed::Renewed(_)))), "{answers:?}");
}
