//! Each call of the embedded store, once through, on a driven clock.

mod common;

use std::time::Duration;

use common::{
    Folder, TTL, TestClock, acquire, block_on, claim, granted, lease, name, open, options, poll_and_keep,
    poll_once,
};
use lease_machines::{OwnerId, Rejection};
use lease_machines_store::{
    Acquired, Claim, Ending, ErrorKind, HoldOutcome, Opening, Released, Renewed, Revoked, SqliteStore, Store,
    Undecided, VacatedHow, WorkResult,
};

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn one_holds_it_and_the_other_is_told_who() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    let store = open(&folder, &clock);
    let first = granted(&store, claim("job", 1).with_label("alice"));
    assert_eq!(first.ttl, TTL);
    assert!(first.token.value() > 1_780_000_000_000_000, "tokens begin above the clock in microseconds");
    clock.advance(secs(10));
    let Acquired::Rejected(rejected) = acquire(&store, claim("job", 2)) else { panic!() };
    assert_eq!(rejected.reason, Rejection::Occupied);
    let occupant = rejected.occupant.unwrap();
    assert_eq!((occupant.owner.value(), occupant.token), (1, first.token));
    assert_eq!((occupant.held_for, occupant.remaining), (secs(10), secs(50)));
    assert_eq!(occupant.label.as_deref(), Some("alice"));

    clock.advance(secs(50));
    let second = granted(&store, claim("job", 2));
    assert_eq!(second.token.value(), first.token.value() + 1);
    let late = block_on(store.renew(lease("job", 1, first), TTL)).unwrap();
    let Renewed::Rejected(rejected) = late else { panic!() };
    assert_eq!(rejected.reason, Rejection::WrongOwner);
    assert_eq!(rejected.occupant.unwrap().owner.value(), 2);
}

#[test]
fn a_renewal_extends_and_a_release_vacates_once() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    let store = open(&folder, &clock);
    let grant = granted(&store, claim("job", 1));
    clock.advance(secs(50));
    let Renewed::Renewed(renewed) = block_on(store.renew(lease("job", 1, grant), TTL)).unwrap() else {
        panic!()
    };
    assert_eq!((renewed.token, renewed.ttl), (grant.token, TTL));
    clock.advance(secs(59));
    let reference = lease("job", 1, grant);
    assert_eq!(block_on(store.release(reference.clone(), Ending::default())).unwrap(), Released::Released);
    assert_eq!(
        block_on(store.release(reference.clone(), Ending::default())).unwrap(),
        Released::AlreadyReleased
    );
    let Renewed::Rejected(rejected) = block_on(store.renew(reference.clone(), TTL)).unwrap() else {
        panic!()
    };
    assert_eq!(rejected.reason, Rejection::Vacant);
    assert_eq!(rejected.vacated.unwrap().how, VacatedHow::Released);
    // Also while the next one holds it.
    let _ = granted(&store, claim("job", 2));
    assert_eq!(block_on(store.release(reference, Ending::default())).unwrap(), Released::AlreadyReleased);
}

#[test]
fn an_echo_gets_the_grant_that_stands_and_no_other() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    let store = open(&folder, &clock);
    let grant = granted(&store, claim("job", 1));
    clock.advance(secs(20));
    let echo = granted(&store, claim("job", 1));
    assert_eq!((echo.token, echo.ttl), (grant.token, secs(40)), "what remains, not what was asked for");
    let Acquired::Rejected(rejected) = acquire(&store, claim("job", 1).with_attempt(2)) else { panic!() };
    assert_eq!(rejected.reason, Rejection::Occupied, "a new attempt to acquire meets the own lease");
    let Acquired::Granted(again) = block_on(store.reacquire(claim("job", 1).with_attempt(2))).unwrap() else {
        panic!()
    };
    assert!(again.token > grant.token);
    assert_eq!(
        granted(&store, claim("job", 1)).token,
        again.token,
        "an older attempt hears of the newer grant"
    );
    clock.advance(secs(60));
    let error = block_on(store.acquire(claim("job", 1).with_attempt(2))).unwrap_err();
    assert_eq!((error.kind(), error.undecided()), (ErrorKind::Superseded, Undecided::NotDone));
}

#[test]
fn a_withdrawn_owner_gets_nothing_any_more() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    let store = open(&folder, &clock);
    let (owner, other) = (OwnerId::new(1), OwnerId::new(2));
    let _ = granted(&store, claim("job", 1));
    assert_eq!(block_on(store.withdraw(name("job"), owner)).unwrap(), Released::Released);
    let _ = granted(&store, claim("job", 2));
    assert_eq!(block_on(store.withdraw(name("job"), other)).unwrap(), Released::Released);
    for late in [claim("job", 1), claim("job", 1).with_attempt(7), claim("job", 2)] {
        assert_eq!(block_on(store.acquire(late)).unwrap_err().kind(), ErrorKind::Superseded);
    }
    // Also where it comes before the request that it withdraws.
    let Released::Rejected(rejected) = block_on(store.withdraw(name("new"), owner)).unwrap() else {
        panic!()
    };
    assert_eq!(rejected.reason, Rejection::Vacant);
    assert_eq!(block_on(store.acquire(claim("new", 1))).unwrap_err().kind(), ErrorKind::Superseded);
    let _ = granted(&store, claim("new", 3));
}

/// Programs on one machine can have wall clocks of their own, and set them: what is remembered does not go by those.
#[test]
fn a_withdrawn_owner_is_not_forgotten_when_a_wall_clock_is_set() {
    let (folder, clock, ahead) = (Folder::new(), TestClock::new("boot"), TestClock::new("boot"));
    let (store, other) = (open(&folder, &clock), open(&folder, &ahead));
    ahead.step_wall(2 * 3600);
    let _ = block_on(store.withdraw(name("job"), OwnerId::new(1))).unwrap();
    // Each withdrawal forgets those of long ago, and so does a prune.
    let _ = block_on(other.withdraw(name("job"), OwnerId::new(2))).unwrap();
    let _ = block_on(other.prune(secs(3600))).unwrap();
    for owner in [1, 2] {
        let kind = block_on(store.acquire(claim("job", owner))).unwrap_err().kind();
        assert_eq!(kind, ErrorKind::Superseded, "owner {owner}");
    }
    // After an hour and more, by the clock that nobody sets, nothing of theirs is on its way any more.
    clock.advance(secs(2 * 3600));
    let _ = block_on(store.prune(secs(3600))).unwrap();
    let _ = granted(&store, claim("job", 1));
}

#[test]
fn a_revoke_burns_a_token_and_tells_whom_it_happened_to() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    let store = open(&folder, &clock);
    let grant = granted(&store, claim("job", 1));
    let stale = lease_machines::FencingToken::new(grant.token.value() + 5);
    let Revoked::Rejected(rejected) = block_on(store.revoke(name("job"), stale, None)).unwrap() else {
        panic!()
    };
    assert_eq!(rejected.reason, Rejection::StaleToken);
    let reason = Some("stuck".to_owned());
    let Revoked::Burnt(burnt) = block_on(store.revoke(name("job"), Some(grant.token), reason)).unwrap()
    else {
        panic!()
    };
    assert_eq!(burnt.value(), grant.token.value() + 1);
    let Released::Rejected(rejected) =
        block_on(store.release(lease("job", 1, grant), Ending::default())).unwrap()
    else {
        panic!()
    };
    assert_eq!(rejected.vacated.unwrap().how, VacatedHow::Revoked);
    assert!(granted(&store, claim("job", 2)).token > burnt);
    let history = block_on(store.history(name("job"), 10)).unwrap();
    let seen: Vec<_> = history.iter().map(|hold| (hold.owner.value(), hold.outcome)).collect();
    assert_eq!(seen, [(2, HoldOutcome::Held), (1, HoldOutcome::Revoked)]);
    assert_eq!(history[1].reason.as_deref(), Some("stuck"));
}

#[test]
fn at_least_holds_a_resource_back_and_once_keeps_work_done() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    let store = open(&folder, &clock);
    let grant = granted(&store, claim("job", 1).with_label("alice"));
    clock.advance(secs(2));
    let ending = Ending::new(WorkResult::Good).with_at_least(secs(30)).with_once(Some("monday".into()));
    let reference = lease("job", 1, grant);
    assert_eq!(
        block_on(store.release(reference.clone(), ending.clone())).unwrap(),
        Released::Retained(secs(28))
    );
    assert_eq!(block_on(store.release(reference.clone(), ending)).unwrap(), Released::AlreadyReleased);
    let Renewed::Rejected(rejected) = block_on(store.renew(reference, TTL)).unwrap() else { panic!() };
    assert_eq!(rejected.reason, Rejection::Vacant, "nothing extends what was released");
    let Acquired::AlreadyDone(end) = acquire(&store, claim("job", 2).with_once("monday")) else { panic!() };
    assert_eq!((end.owner.value(), end.token, end.label.as_deref()), (1, grant.token, Some("alice")));
    let Acquired::Rejected(rejected) = acquire(&store, claim("job", 2).with_once("tuesday")) else {
        panic!()
    };
    assert!(rejected.occupant.unwrap().retained);
    assert_eq!(block_on(store.inspect(name("job"))).unwrap().last_good.unwrap().token, grant.token);
    clock.advance(secs(28));
    assert!(granted(&store, claim("job", 2)).token > grant.token);
}

#[test]
fn a_prune_that_fails_on_its_way_is_unknown() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    let store = open(&folder, &clock);
    let held = granted(&store, claim("job", 1));
    let _ = block_on(store.release(lease("job", 1, held), Ending::default())).unwrap();
    // More than one transaction forgets; what the last one forgets cannot be deleted.
    let other = rusqlite::Connection::open(folder.file()).unwrap();
    other
        .execute_batch(
            "WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < 2000)
             INSERT INTO lease_row (name, last_issued, observed, wall) SELECT 'a-' || n, 1, 0, 0 FROM number;
             CREATE TRIGGER fails BEFORE DELETE ON lease_row WHEN OLD.name = 'job'
             BEGIN SELECT RAISE(ABORT, 'in the way'); END",
        )
        .unwrap();
    clock.advance(secs(10));
    let error = block_on(store.prune(secs(1))).unwrap_err();
    assert_eq!(block_on(store.list(String::new())).unwrap().len(), 1, "{error:?}");
    assert_eq!(error.undecided(), Undecided::Unknown, "{error:?}");
    let error = block_on(store.prune(secs(1))).unwrap_err();
    assert_eq!(error.undecided(), Undecided::NotDone, "{error:?}");
}

#[test]
fn pruning_forgets_names_but_never_lowers_tokens() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    let store = open(&folder, &clock);
    let mut greatest = 0;
    for resource in ["a", "b", "c"] {
        let grant = granted(&store, claim(resource, 1));
        greatest = greatest.max(grant.token.value());
        let ending = Ending::new(WorkResult::Good);
        assert_eq!(block_on(store.release(lease(resource, 1, grant), ending)).unwrap(), Released::Released);
    }
    let held = granted(&store, claim("held", 1));
    clock.advance(secs(30));
    // A wall clock that goes back must not bring old tokens back either.
    clock.step_wall(-3600);
    let pruned = block_on(store.prune(secs(20))).unwrap();
    assert_eq!(pruned.resources, 3);
    assert!(pruned.floor >= greatest);
    assert_eq!(block_on(store.list(String::new())).unwrap().len(), 1);
    assert!(block_on(store.inspect(name("a"))).unwrap().last_good.is_some(), "the last good end stays");
    assert!(granted(&store, claim("a", 2)).token.value() > greatest);
    let Renewed::Renewed(_) = block_on(store.renew(lease("held", 1, held), TTL)).unwrap() else { panic!() };
}

#[test]
fn a_new_epoch_ends_every_lease_of_the_old_one() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    let store = open(&folder, &clock);
    let grant = granted(&store, claim("job", 1));
    let old = block_on(store.epoch()).unwrap();
    let new = block_on(store.open_epoch(Opening::new(old).with_dead_holders())).unwrap();
    assert_ne!(new, old);
    assert_eq!(block_on(store.open_epoch(Opening::new(old))).unwrap(), new, "compared and set");
    let error = block_on(store.renew(lease("job", 1, grant), TTL)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NewEpoch { current: new });
    let error = block_on(store.acquire(claim("job", 2).with_epoch(Some(old)))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NewEpoch { current: new });
    let next = granted(&store, claim("job", 2));
    assert!(next.token.value() >= grant.token.value() + (1 << 32));
    assert_eq!(next.epoch, new);
    let history = block_on(store.history(name("job"), 9)).unwrap();
    let seen: Vec<_> = history.iter().map(|hold| (hold.owner.value(), hold.outcome)).collect();
    assert_eq!(seen, [(2, HoldOutcome::Held), (1, HoldOutcome::EpochLost)]);
}

#[test]
fn without_word_of_their_death_old_holders_are_waited_for() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    let store = SqliteStore::open(folder.file(), options(&clock).max_ttl(secs(100))).unwrap();
    let grant = granted(&store, claim("job", 1));
    let old = block_on(store.epoch()).unwrap();
    let new = block_on(store.open_epoch(Opening::new(old))).unwrap();
    let reference = lease_machines_store::LeaseRef::new(name("job"), OwnerId::new(1), grant.token, None);
    let error = block_on(store.renew(reference, TTL)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NewEpoch { current: new }, "also without naming an epoch");
    let error = block_on(store.acquire(claim("other", 2))).unwrap_err();
    assert_eq!((error.kind(), error.undecided()), (ErrorKind::Busy, Undecided::NotDone));
    clock.advance(secs(100));
    let _ = granted(&store, claim("other", 2));
}

#[test]
fn a_token_that_the_file_does_not_know_shows_that_history_was_lost() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    let store = open(&folder, &clock);
    let grant = granted(&store, claim("job", 1));
    let old = block_on(store.epoch()).unwrap();
    let mut ahead = grant;
    ahead.token = lease_machines::FencingToken::new(grant.token.value() + 3).unwrap();
    // Without an epoch it is just a wrong token.
    let mut reference = lease("job", 1, ahead);
    reference.epoch = None;
    let Renewed::Rejected(rejected) = block_on(store.renew(reference, TTL)).unwrap() else { panic!() };
    assert_eq!(rejected.reason, Rejection::StaleToken);
    assert_eq!(block_on(store.epoch()).unwrap(), old);
    // With one, somebody holds a lease that was granted in a part of the history that is gone.
    let Renewed::Rejected(rejected) = block_on(store.renew(lease("job", 1, ahead), TTL)).unwrap() else {
        panic!()
    };
    assert_eq!(rejected.reason, Rejection::StaleToken);
    assert_ne!(block_on(store.epoch()).unwrap(), old);
}

/// A lease that is shown under another resource's name is a mistake, and no sign of a loss: nobody else's may end by it.
#[test]
fn a_lease_under_another_name_is_a_mistake_and_no_lost_history() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    let store = open(&folder, &clock);
    let old = block_on(store.epoch()).unwrap();
    let job = granted(&store, claim("job", 1));
    let mistyped = |name| {
        let Renewed::Rejected(why) = block_on(store.renew(lease(name, 1, job), TTL)).unwrap() else {
            panic!("renewed")
        };
        let release = block_on(store.release(lease(name, 1, job), Ending::default())).unwrap();
        assert!(matches!(release, Released::Rejected(_)), "{release:?}");
        assert_eq!(block_on(store.epoch()).unwrap(), old, "every lease of the store was ended");
        why.reason
    };
    assert_eq!(mistyped("jop"), Rejection::Vacant);
    // Also where the other name is in use, with smaller tokens; and by the last one who gave the right one back.
    let _ = granted(&store, claim("jop", 2));
    let edit = rusqlite::Connection::open(folder.file()).unwrap();
    edit.execute("UPDATE lease_row SET token = 5, last_issued = 5 WHERE name = 'jop'", []).unwrap();
    assert_eq!(mistyped("jop"), Rejection::WrongOwner);
    let _ = block_on(store.release(lease("job", 1, job), Ending::default())).unwrap();
    assert_eq!(mistyped("jop"), Rejection::WrongOwner);
    assert_eq!(mistyped("jab"), Rejection::Vacant);
    // What nobody here was ever granted still shows a loss, whatever the name.
    let stranger = block_on(store.renew(lease("jab", 3, job), TTL)).unwrap();
    assert!(matches!(stranger, Renewed::Rejected(_)), "{stranger:?}");
    assert_ne!(block_on(store.epoch()).unwrap(), old);
}

#[test]
fn a_caller_that_leaves_leaves_nothing_held() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    let store = open(&folder, &clock);
    for owner in 1..200 {
        poll_once(store.acquire(claim("job", owner)));
    }
    // What was decided before the caller left is taken back in the order of the queue.
    let start = std::time::Instant::now();
    let mut owner = 1_000;
    loop {
        owner += 1;
        match acquire(&store, claim("job", owner)) {
            Acquired::Granted(_) => break,
            other => assert!(start.elapsed() < secs(10), "somebody left it held: {other:?}"),
        }
    }
}

/// Decided, committed, and the caller leaves without having looked at the answer.
#[test]
fn a_grant_that_nobody_heard_of_is_taken_back() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    let store = open(&folder, &clock);
    let looks = || block_on(store.inspect(name("job"))).unwrap();
    let held_by = || looks().occupant.map(|occupant| occupant.owner.value());
    let start = std::time::Instant::now();
    let until = |owner| {
        while held_by() != owner {
            assert!(start.elapsed() < secs(20), "held by {:?}, expected {owner:?}", held_by());
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let mut unheard = poll_and_keep(store.acquire(claim("job", 1)));
    until(Some(1));
    drop(unheard);
    until(None);
    assert_eq!(looks().vacated.unwrap().how, VacatedHow::Withdrawn);
    // An echo that nobody hears takes nothing from whoever heard the grant.
    let grant = granted(&store, claim("job", 2));
    unheard = poll_and_keep(store.acquire(claim("job", 2)));
    assert!(matches!(acquire(&store, claim("job", 3)), Acquired::Rejected(_)));
    drop(unheard);
    let renewed = block_on(store.renew(lease("job", 2, grant), TTL)).unwrap();
    assert!(matches!(renewed, Renewed::Renewed(_)), "{renewed:?}");
    // What is taken back is the grant, not the owner: its next attempt goes through.
    let _ = block_on(store.release(lease("job", 2, grant), Ending::default())).unwrap();
    unheard = poll_and_keep(store.acquire(claim("job", 3)));
    until(Some(3));
    drop(unheard);
    let again = block_on(store.reacquire(claim("job", 3).with_attempt(2))).unwrap();
    let Acquired::Granted(grant) = again else { panic!("{again:?}") };
    // Nor does one take anything that was followed by the owner's next attempt.
    let _ = block_on(store.release(lease("job", 3, grant), Ending::default())).unwrap();
    unheard = poll_and_keep(store.acquire(claim("job", 4)));
    until(Some(4));
    let again = block_on(store.reacquire(claim("job", 4).with_attempt(2))).unwrap();
    let Acquired::Granted(again) = again else { panic!("{again:?}") };
    drop(unheard);
    let renewed = block_on(store.renew(lease("job", 4, again), TTL)).unwrap();
    assert!(matches!(renewed, Renewed::Renewed(_)), "{renewed:?}");
}

/// One resource's row that makes no sense is an error of its own; what shares the commit goes through.
#[test]
fn a_damaged_row_is_nobody_elses_error() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    let store = open(&folder, &clock);
    let _ = granted(&store, claim("broken", 1));
    let other = rusqlite::Connection::open(folder.file()).unwrap();
    other.execute_batch("UPDATE lease_row SET expires_at = 'soon'").unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    std::thread::scope(|scope| {
        let store = &store;
        let broken = scope.spawn(|| block_on(store.acquire(claim("broken", 2))));
        let sound: Vec<_> = (0..8)
            .map(|index| scope.spawn(move || acquire(store, claim(&format!("sound-{index}"), 3))))
            .collect();
        // All of them wait for the lock, and share a commit.
        std::thread::sleep(Duration::from_millis(100));
        other.execute_batch("COMMIT").unwrap();
        let error = broken.join().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged, "{error:?}");
        for one in sound {
            let answer = one.join().unwrap();
            assert!(matches!(answer, Acquired::Granted(_)), "{answer:?}");
        }
    });
}

/// Nor, among renewals that come in one request, any other lease's.
#[test]
fn a_damaged_row_costs_no_lease_that_is_renewed_beside_it() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    let store = open(&folder, &clock);
    let names = ["a", "broken", "c"];
    let leases: Vec<_> = names.map(|name| (lease(name, 1, granted(&store, claim(name, 1))), TTL)).into();
    let other = rusqlite::Connection::open(folder.file()).unwrap();
    other.execute_batch("UPDATE lease_row SET expires_at = 'soon' WHERE name = 'broken'").unwrap();
    let answers = block_on(store.renew_many(leases)).unwrap();
    assert!(matches!(&answers[0], Ok(Renewed::Renewed(_))), "{answers:?}");
    assert!(matches!(&answers[1], Err(error) if error.kind() == ErrorKind::Damaged), "{answers:?}");
    assert!(matches!(&answers[2], Ok(Renewed::Renewed(_))), "{answers:?}");
}

#[test]
fn a_waiter_is_woken_by_a_release_and_by_an_expiry() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    let store = open(&folder, &clock);
    let other = open(&folder, &clock);
    for releasing in [&store, &other] {
        let grant = granted(&store, claim("job", 1).with_attempt(1));
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| block_on(store.wait(name("job"), secs(3600))));
            std::thread::sleep(Duration::from_millis(50));
            assert!(!waiter.is_finished());
            let _ = block_on(releasing.release(lease("job", 1, grant), Ending::default())).unwrap();
            waiter.join().unwrap().unwrap();
        });
        let _ = granted(&store, claim("job", 2));
        clock.advance(TTL);
        let _ = block_on(store.prune(Duration::ZERO));
    }
    let _ = granted(&store, claim("job", 5));
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| block_on(store.wait(name("job"), secs(3600))));
        std::thread::sleep(Duration::from_millis(50));
        assert!(!waiter.is_finished());
        clock.advance(TTL);
        waiter.join().unwrap().unwrap();
    });
    // And its own limit ends a wait for what is held on and on.
    let day = claim("job", 6);
    let _ = granted(&store, Claim::new(day.resource, day.owner, secs(24 * 3600)));
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| block_on(store.wait(name("job"), secs(10))));
        while !waiter.is_finished() {
            clock.advance(Duration::from_millis(100));
            std::thread::sleep(Duration::from_millis(1));
        }
        waiter.join().unwrap().unwrap();
    });
    assert!(matches!(acquire(&store, claim("job", 7)), Acquired::Rejected(_)));
}

#[test]
fn renewing_many_gives_each_its_own_answer_in_the_order_asked() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    let store = open(&folder, &clock);
    let names = ["c", "a", "b"];
    let mut leases: Vec<_> = names.map(|name| (lease(name, 1, granted(&store, claim(name, 1))), TTL)).into();
    leases[1].0.owner = OwnerId::new(9);
    leases.push((leases[0].0.clone(), secs(1_000_000)));
    let answers = block_on(store.renew_many(leases)).unwrap();
    assert!(matches!(&answers[0], Ok(Renewed::Renewed(grant)) if grant.ttl == TTL));
    assert!(matches!(&answers[1], Ok(Renewed::Rejected(why)) if why.reason == Rejection::WrongOwner));
    assert!(matches!(&answers[2], Ok(Renewed::Renewed(_))));
    assert!(matches!(&answers[3], Err(error) if error.kind() == ErrorKind::Request));
}

#[test]
fn a_healthy_file_has_no_bad_findings() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    let store = open(&folder, &clock);
    let findings = block_on(store.doctor()).unwrap();
    assert!(findings.len() >= 6, "{findings:?}");
    // The temporary folder of this machine may lie in memory.
    for finding in findings.iter().filter(|one| one.check != "file system") {
        assert_eq!(finding.severity, lease_machines_store::Severity::Fine, "{finding:?}");
    }
}

#[test]
fn history_is_bounded() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    let store = SqliteStore::open(folder.file(), options(&clock).history(Some(10))).unwrap();
    for owner in 1..100 {
        let grant = granted(&store, claim("job", owner));
        let _ = block_on(store.release(lease("job", owner, grant), Ending::default())).unwrap();
    }
    let history = block_on(store.history(name("job"), 1_000)).unwrap();
    assert!((10..=25).contains(&history.len()), "{}", history.len());
    // Tokens that are burnt between two holds leave gaps: every hold's may be odd.
    for name in ["odd", "even"] {
        for owner in 1..100 {
            let grant = granted(&store, claim(name, owner));
            if owner == 1 && (name == "odd") == (grant.token.value() % 2 == 0) {
                let _ = block_on(store.release(lease(name, 1, grant), Ending::default())).unwrap();
                continue;
            }
            let _ = block_on(store.revoke(common::name(name), None, None)).unwrap();
        }
        let history = block_on(store.history(common::name(name), 1_000)).unwrap();
        assert!((10..=25).contains(&history.len()), "{name}: {}", history.len());
    }
    assert_eq!(history[0].owner.value(), 99);
}
