//! A row that somebody keeps locked for longer than a lease on it lasts: the clock is read after the wait.

use std::thread;
use std::time::{Duration, Instant};

use lease_machines::{OwnerId, Rejection};
use lease_machines_store::conformance::block_on;
use lease_machines_store::{
    Acquired, ErrorKind, LeaseRef, MysqlStore, Renewed, Severity, Store, StoreError, Undecided,
};

use crate::help::{claim, claim_for, granted, lease, on_both};
use crate::servers::mysql::{Kind, Server, runtime, say};
use crate::servers::proxy::Proxy;

pub const TTL: Duration = Duration::from_millis(300);

/// Begins a transaction with something in it, and gives what says more in it.
pub fn harmed(server: &Server, database: &str, harm: &str) -> impl FnMut(&str) + use<> {
    let mut blocker = runtime().block_on(server.client(database)).unwrap();
    let mut speak = move |text: &str| drop(runtime().block_on(say(&mut blocker, text)).unwrap());
    speak(&format!("SET SESSION autocommit = 1; BEGIN; {harm}"));
    speak
}

/// Whether a request in this database waits for a lock. Not by `INNODB_TRX`: that is a copy, and is renewed only when
/// nobody has looked at it for a tenth of a second.
pub fn is_waiting(server: &Server, database: &str) -> bool {
    let threads = format!("SELECT id FROM information_schema.processlist WHERE db = '{database}'");
    let threads = server.sql("", &threads);
    let transactions = server.innodb();
    transactions.split("---TRANSACTION").any(|one| {
        one.contains("LOCK WAIT") && threads.iter().any(|id| one.contains(&format!(" thread id {id},")))
    })
}

/// Does something to the row in a transaction, has `asked` begin meanwhile, and ends the transaction when the lease is
/// over and the request is seen to wait.
pub fn while_blocked<T: Send>(
    server: &Server,
    database: &str,
    harm: &str,
    end: &str,
    asked: impl FnOnce() -> T + Send,
) -> T {
    let mut speak = harmed(server, database, harm);
    thread::scope(|scope| {
        let asking = scope.spawn(asked);
        let begun = Instant::now();
        while begun.elapsed() < TTL + Duration::from_millis(100) || !is_waiting(server, database) {
            assert!(begun.elapsed() < Duration::from_secs(20), "nobody waits for the row");
            thread::sleep(Duration::from_millis(20));
        }
        speak(end);
        asking.join().unwrap()
    })
}

const LOCKED: &str = "SELECT 1 FROM lease_row FOR UPDATE";
const UPDATED: &str = "UPDATE lease_row SET label = 'touched'";
const INSERTED: &str = "INSERT INTO lease_row (name, last_issued, observed) VALUES ('job', 0, 0)";

on_both! {
    an_expiry_counts_from_after_the_wait
    a_grant_lasts_from_after_the_wait
    a_first_grant_and_a_withdrawal_come_one_after_the_other
    a_lock_is_waited_for_no_longer_than_the_caller_allows
    a_call_ends_in_time_however_many_requests_it_takes
    renewals_of_many_are_not_held_up_by_one_that_is_locked
    a_call_with_little_time_left_is_not_done_rather_than_unknown
    sysdate_is_now_changes_nothing_and_is_told
    a_renewal_is_not_taken_back_by_its_twin
}

fn an_expiry_counts_from_after_the_wait(kind: Kind) {
    let server = Server::shared(kind);
    for (harm, end) in [(LOCKED, "COMMIT"), (UPDATED, "COMMIT"), (UPDATED, "ROLLBACK")] {
        let (database, url) = server.fresh();
        let store = MysqlStore::open(&url).unwrap();
        let held = lease("job", 1, granted(&store, claim_for("job", 1, TTL)));
        let late =
            while_blocked(server, &database, harm, end, || block_on(store.renew(held.clone(), TTL)).unwrap());
        let Renewed::Rejected(why) = late else { panic!("{harm} {end}: a lease was revived: {late:?}") };
        assert_eq!(why.reason, Rejection::Expired, "{harm} {end}");
    }
}

fn a_grant_lasts_from_after_the_wait(kind: Kind) {
    let server = Server::shared(kind);
    for (harm, end) in [
        (LOCKED, "COMMIT"),
        (UPDATED, "COMMIT"),
        (UPDATED, "ROLLBACK"),
        (INSERTED, "COMMIT"),
        (INSERTED, "ROLLBACK"),
    ] {
        let (database, url) = server.fresh();
        let store = MysqlStore::open(&url).unwrap();
        if harm != INSERTED {
            let held = granted(&store, claim_for("job", 1, TTL));
            assert!(held.token.value() > 0);
        }
        let next = while_blocked(server, &database, harm, end, || {
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

fn a_first_grant_and_a_withdrawal_come_one_after_the_other(kind: Kind) {
    let server = Server::shared(kind);
    let (database, url) = server.fresh();
    let store = MysqlStore::open(&url).unwrap();
    let answer = while_blocked(server, &database, INSERTED, "ROLLBACK", || {
        thread::scope(|scope| {
            let acquire = scope.spawn(|| block_on(store.acquire(claim("job", 1))));
            let withdraw =
                scope.spawn(|| block_on(store.withdraw(claim("job", 1).resource, OwnerId::new(1))));
            (acquire.join().unwrap(), withdraw.join().unwrap())
        })
    });
    if let Err(error) = &answer.1 {
        // Both began with an insert behind one that was rolled back: the server may let one of them try again.
        assert_eq!(error.undecided(), Undecided::NotDone, "{answer:?}");
        let _ = block_on(store.withdraw(claim("job", 1).resource, OwnerId::new(1))).unwrap();
    }
    let left = block_on(store.inspect(claim("job", 1).resource)).unwrap();
    assert!(left.occupant.is_none(), "a withdrawn owner holds it, after {answer:?}");
}

fn a_lock_is_waited_for_no_longer_than_the_caller_allows(kind: Kind) {
    let server = Server::shared(kind);
    let (database, url) = server.fresh();
    let store = MysqlStore::open(&format!("{url}?timeout=6s")).unwrap();
    let held: LeaseRef = lease("job", 1, granted(&store, claim("job", 1)));
    let mut speak = harmed(server, &database, LOCKED);
    let error = block_on(store.renew(held.clone(), TTL)).unwrap_err();
    speak("COMMIT");
    assert_eq!(error.undecided(), Undecided::NotDone, "{error:?}");
    assert!(matches!(block_on(store.renew(held, TTL)).unwrap(), Renewed::Renewed(_)));
}

fn renewals_of_many_are_not_held_up_by_one_that_is_locked(kind: Kind) {
    const SHORT: Duration = Duration::from_secs(3);
    let server = Server::shared(kind);
    let (database, _) = server.fresh();
    let proxy = Proxy::to_mysql(server.port);
    let url = format!("mysql://lease:@127.0.0.1:{}/{database}", proxy.port);
    let store = MysqlStore::open(&url).unwrap();
    let mut leases = Vec::new();
    for n in 0..50 {
        let name = format!("job-{n}");
        leases.push((lease(&name, 1, granted(&store, claim_for(&name, 1, SHORT))), SHORT));
    }
    let others = |answers: &[Result<Renewed, StoreError>], what: &str| {
        for (n, answer) in answers.iter().enumerate().filter(|(n, _)| *n != 7) {
            assert!(matches!(answer, Ok(Renewed::Renewed(_))), "job-{n}, {what}: {answer:?}");
        }
    };
    let mut speak = harmed(server, &database, "SELECT 1 FROM lease_row WHERE name = 'job-7' FOR UPDATE");
    // For longer than they last, as often as a keeper asks. If one answer took as long as a lock is waited for, they would be over.
    let begun = Instant::now();
    let mut asked = 0;
    while begun.elapsed() < SHORT + SHORT / 2 {
        let before = proxy.asked();
        let answers = block_on(store.renew_many(leases.clone())).unwrap();
        others(&answers, "while one is locked");
        let error = answers[7].as_ref().unwrap_err();
        assert_eq!((error.kind(), error.undecided()), (ErrorKind::Busy, Undecided::NotDone), "{error:?}");
        assert!(error.to_string().contains("job-7"), "{error}");
        asked = asked.max(proxy.asked() - before);
        thread::sleep(Duration::from_millis(200));
    }
    assert!(asked >= 4, "it was not asked for again: {asked} requests");
    speak("COMMIT");
    // Its term is over by now, which it hears alone.
    let answers = block_on(store.renew_many(leases.clone())).unwrap();
    others(&answers, "afterwards");
    let Ok(Renewed::Rejected(why)) = &answers[7] else { panic!("{:?}", answers[7]) };
    assert_eq!(why.reason, Rejection::Expired);
    // What is to be refused is refused at once, and what nobody has locked any more is renewed.
    let revoked = leases[3].0.clone();
    assert!(block_on(store.revoke(revoked.resource, None, None)).is_ok());
    leases.remove(7);
    let answers = block_on(store.renew_many(leases)).unwrap();
    for (n, answer) in answers.iter().enumerate() {
        assert_eq!(matches!(answer, Ok(Renewed::Renewed(_))), n != 3, "{n}: {answer:?}");
    }
    assert!(matches!(answers[3], Ok(Renewed::Rejected(_))), "{:?}", answers[3]);
}

/// A call that had to wait for its connection has less time left than a lock is waited for as a rule.
fn a_call_with_little_time_left_is_not_done_rather_than_unknown(kind: Kind) {
    let server = Server::shared(kind);
    let (database, url) = server.fresh();
    let store = MysqlStore::open(&format!("{url}?timeout=6s&connections=1")).unwrap();
    let held: LeaseRef = lease("job", 1, granted(&store, claim("job", 1)));
    let other: LeaseRef = lease("other", 1, granted(&store, claim("other", 1)));
    let mut speak = harmed(server, &database, LOCKED);
    thread::scope(|scope| {
        let first = scope.spawn(|| block_on(store.renew(held.clone(), TTL)).unwrap_err());
        let begun = Instant::now();
        while !is_waiting(server, &database) {
            assert!(begun.elapsed() < Duration::from_secs(20), "nobody waits for the row");
            thread::sleep(Duration::from_millis(5));
        }
        // It has the connection when the first one gives it up, some 4 s later.
        let error = block_on(store.renew(other.clone(), TTL)).unwrap_err();
        assert_eq!(error.undecided(), Undecided::NotDone, "{error:?}");
        assert_eq!(first.join().unwrap().undecided(), Undecided::NotDone);
    });
    speak("COMMIT");
    assert!(matches!(block_on(store.renew(held.clone(), TTL)).unwrap(), Renewed::Renewed(_)));
    // The next one waits for as long as any other again.
    let late = while_blocked_for(server, &database, Duration::from_secs(2), || {
        block_on(store.renew(held, Duration::from_secs(70)))
    });
    assert!(matches!(late, Ok(Renewed::Renewed(_))), "{late:?}");
}

/// Keeps all rows locked for so long while something is asked.
fn while_blocked_for<T: Send>(
    server: &Server,
    database: &str,
    time: Duration,
    asked: impl FnOnce() -> T + Send,
) -> T {
    let mut speak = harmed(server, database, LOCKED);
    thread::scope(|scope| {
        let asking = scope.spawn(asked);
        thread::sleep(time);
        speak("COMMIT");
        asking.join().unwrap()
    })
}

fn a_call_ends_in_time_however_many_requests_it_takes(kind: Kind) {
    let server = Server::shared(kind);
    let (database, url) = server.fresh();
    let store = MysqlStore::open(&format!("{url}?timeout=6s")).unwrap();
    let minute = Duration::from_secs(60);
    let leases: Vec<_> = (0..20)
        .map(|n| (lease(&n.to_string(), 1, granted(&store, claim(&n.to_string(), 1))), minute))
        .collect();
    let mut speak = harmed(server, &database, LOCKED);
    let begun = Instant::now();
    let answers = block_on(store.renew_many(leases.clone())).unwrap();
    // One alone would wait for 4 s.
    assert!(begun.elapsed() < Duration::from_millis(3_500), "{:?}", begun.elapsed());
    assert!(answers.iter().all(Result::is_err), "{answers:?}");
    assert_eq!(answers[0].as_ref().unwrap_err().undecided(), Undecided::NotDone, "{answers:?}");
    speak("COMMIT");
    let answers = block_on(store.renew_many(leases)).unwrap();
    assert!(answers.iter().all(|answer| matches!(answer, Ok(Renewed::Renewed(_)))), "{answers:?}");
}

/// With it SYSDATE() stands still in a statement as NOW() does. No procedure reads the clock by it.
fn sysdate_is_now_changes_nothing_and_is_told(kind: Kind) {
    let server = Server::start_in_memory("", kind, &["--sysdate-is-now"]);
    let (database, url) = server.fresh();
    let store = MysqlStore::open(&url).unwrap();
    let told = |store: &MysqlStore| {
        let findings = block_on(store.doctor()).unwrap();
        findings.into_iter().find(|finding| finding.check == "sysdate-is-now").unwrap()
    };
    let found = told(&store);
    assert_eq!((found.severity, found.found.split(':').next()), (Severity::Note, Some("ON")), "{found:?}");
    let (_, usual) = Server::shared(kind).fresh();
    assert_eq!(told(&MysqlStore::open(&usual).unwrap()).severity, Severity::Fine);
    let held = lease("job", 1, granted(&store, claim_for("job", 1, TTL)));
    let late =
        while_blocked(&server, &database, LOCKED, "COMMIT", || block_on(store.renew(held, TTL)).unwrap());
    let Renewed::Rejected(why) = late else { panic!("a lease was revived: {late:?}") };
    assert_eq!(why.reason, Rejection::Expired);
}

/// The same lease twice in one request, for less the second time.
fn a_renewal_is_not_taken_back_by_its_twin(kind: Kind) {
    let (_, url) = Server::shared(kind).fresh();
    let store = MysqlStore::open(&url).unwrap();
    let second = Duration::from_secs(1);
    let held = lease("job", 1, granted(&store, claim_for("job", 1, 20 * second)));
    let asked = [60, 10].map(|seconds| (held.clone(), seconds * second));
    for told in block_on(store.renew_many(asked.into())).unwrap() {
        assert!(matches!(told, Ok(Renewed::Renewed(_))), "{told:?}");
    }
    let left = block_on(store.inspect(held.resource)).unwrap().occupant.unwrap().remaining;
    assert!(left > 50 * second, "{left:?}");
}
