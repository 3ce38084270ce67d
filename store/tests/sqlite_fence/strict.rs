//! The strict guard, which also knows of what the lease store in the same database has committed.

use super::*;

#[test]
fn the_strict_guard_knows_of_releases_revokes_and_newer_grants() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    let store = open(&folder, &clock);
    // Leases and data in one file.
    let mut data = data(&folder.file());
    let first = granted(&store, claim("stock", 1));
    let first_lease = lease("stock", 1, first);
    assert_eq!(write(&mut data, &first_lease, GuardMode::Auto), Ok(GuardKind::Strict));
    let mut other_owner = first_lease.clone();
    other_owner.owner = OwnerId::new(9);
    assert!(write(&mut data, &other_owner, GuardMode::Auto).is_err());

    let _ = block_on(store.release(first_lease.clone(), Ending::default())).unwrap();
    assert_eq!(write(&mut data, &first_lease, GuardMode::Auto), Err(GuardErrorKind::Lost), "released");

    let second = granted(&store, claim("stock", 2));
    // Before the second holder has shown its token to any fence.
    let stale = GuardErrorKind::StaleToken { held: first.token, highest: second.token };
    assert_eq!(write(&mut data, &first_lease, GuardMode::Auto), Err(stale));
    let second_lease = lease("stock", 2, second);
    assert_eq!(write(&mut data, &second_lease, GuardMode::Strict), Ok(GuardKind::Strict));

    let _ = block_on(store.revoke(name("stock"), None, None)).unwrap();
    assert!(matches!(
        write(&mut data, &second_lease, GuardMode::Auto),
        Err(GuardErrorKind::StaleToken { .. })
    ));
    assert_eq!(rows(&data), [first.token.value() as i64, second.token.value() as i64]);
}

#[test]
fn the_strict_guard_refuses_work_that_has_ended_and_owners_that_hold_nothing() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    let store = open(&folder, &clock);
    let mut data = data(&folder.file());
    // No mark yet: the store alone knows better.
    let kept = lease("stock", 1, granted(&store, claim("stock", 1)));
    let mut thief = kept.clone();
    thief.owner = OwnerId::new(9);
    assert_eq!(write(&mut data, &thief, GuardMode::Auto), Err(GuardErrorKind::Lost), "another owner");
    assert_eq!(SqliteFence::look(&data, &key()).unwrap(), None, "and left no mark");

    let ended = block_on(store.release(kept.clone(), Ending::default().with_at_least(TTL))).unwrap();
    assert!(matches!(ended, Released::Retained(_)), "{ended:?}");
    assert_eq!(
        write(&mut data, &kept, GuardMode::Auto),
        Err(GuardErrorKind::Lost),
        "others are kept out, work is over"
    );

    clock.advance(TTL * 2);
    let withdrawn = lease("stock", 2, granted(&store, claim("stock", 2)));
    assert_eq!(block_on(store.withdraw(name("stock"), withdrawn.owner)).unwrap(), Released::Released);
    assert_eq!(write(&mut data, &withdrawn, GuardMode::Auto), Err(GuardErrorKind::Lost), "withdrawn");
    assert_eq!(rows(&data), [0; 0]);
}

/// Nobody has taken the resource since, and nobody can before the guarded transaction ends.
#[test]
fn a_lease_that_merely_ran_out_passes_until_it_is_taken() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    let store = open(&folder, &clock);
    let mut data = data(&folder.file());
    let late = lease("stock", 1, granted(&store, claim("stock", 1)));
    clock.advance(TTL * 2);
    assert_eq!(write(&mut data, &late, GuardMode::Strict), Ok(GuardKind::Strict));
    let next = granted(&store, claim("stock", 2));
    let stale = GuardErrorKind::StaleToken { held: late.token, highest: next.token };
    assert_eq!(write(&mut data, &late, GuardMode::Strict), Err(stale));
}

#[test]
fn marks_outlive_the_epoch_of_their_store() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    let store = open(&folder, &clock);
    let mut data = data(&folder.path().join("data.db"));
    let old = lease("stock", 1, granted(&store, claim("stock", 1)));
    write(&mut data, &old, GuardMode::Auto).unwrap();
    let epoch = old.epoch.unwrap();
    block_on(store.open_epoch(Opening::new(epoch).with_dead_holders())).unwrap();
    let new = lease("stock", 2, granted(&store, claim("stock", 2)));
    assert_ne!(new.epoch, old.epoch);
    SqliteFence::advance(&mut data, &key(), &new).unwrap();
    let stale = GuardErrorKind::StaleToken { held: old.token, highest: new.token };
    assert_eq!(write(&mut data, &old, GuardMode::Auto), Err(stale));
}

#[test]
fn the_strict_guard_runs_only_where_it_can() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    let mut apart = data(&folder.path().join("data.db"));
    assert_eq!(write(&mut apart, &held(1), GuardMode::Strict), Err(GuardErrorKind::NotStrict));
    let store = open(&folder, &clock);
    let mut together = data(&folder.file());
    let grant = granted(&store, claim("stock", 1));
    let mut anonymous = lease("stock", 1, grant);
    anonymous.epoch = None;
    assert_eq!(write(&mut together, &anonymous, GuardMode::Strict), Err(GuardErrorKind::NotStrict));
    assert_eq!(write(&mut together, &anonymous, GuardMode::Auto), Ok(GuardKind::Plain));
    let old = block_on(store.epoch()).unwrap();
    block_on(store.open_epoch(Opening::new(old).with_dead_holders())).unwrap();
    assert_eq!(write(&mut together, &lease("stock", 1, grant), GuardMode::Strict), Err(GuardErrorKind::Lost));
}

/// The store in the same database knows what it granted, also when it is in another epoch by now.
#[test]
fn a_lease_of_a_former_epoch_is_refused_where_the_store_granted_it() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    let store = open(&folder, &clock);
    let mut data = data(&folder.file());
    let first = lease("stock", 1, granted(&store, claim("stock", 1)));
    let _ = block_on(store.open_epoch(Opening::new(first.epoch.unwrap()).with_dead_holders())).unwrap();
    assert_eq!(write(&mut data, &first, GuardMode::Auto), Err(GuardErrorKind::Lost));
    let second = lease("stock", 2, granted(&store, claim("stock", 2)));
    assert_eq!(write(&mut data, &first, GuardMode::Auto), Err(GuardErrorKind::Lost), "taken by another");
    // What another store granted is compared with the mark: nothing is known of it here.
    let apart = Folder::new();
    let elsewhere = open(&apart, &clock);
    let other = lease("stock", 7, granted(&elsewhere, claim("stock", 7)));
    let mark = MarkKey::new(name("stock")).in_store("elsewhere");
    let write_there = data.transaction().unwrap();
    let passed = SqliteFence::guard(&write_there, &mark, &other, GuardMode::Auto).unwrap();
    assert_eq!(passed.kind(), GuardKind::Plain);
    write_there.rollback().unwrap();
    assert_eq!(write(&mut data, &second, GuardMode::Auto), Ok(GuardKind::Strict));
}

/// The guard's transaction does not touch the lease's own row.
#[test]
fn a_guard_does_not_get_between_two_renewals() {
    let (folder, clock) = (Folder::new(), TestClock::new("boot"));
    let store = open(&folder, &clock);
    let mut data = data(&folder.file());
    let grant = granted(&store, claim("stock", 1));
    for _ in 0..20 {
        assert_eq!(write(&mut data, &lease("stock", 1, grant), GuardMode::Strict), Ok(GuardKind::Strict));
        let answer = block_on(store.renew(lease("stock", 1, grant), TTL)).unwrap();
        assert!(matches!(answer, lease_machines_store::Renewed::Renewed(_)), "{answer:?}");
    }
}
