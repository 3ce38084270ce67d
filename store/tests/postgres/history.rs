//! So many holds are remembered as were asked for, and the table does not grow with the others.

use std::time::Duration;

use lease_machines_store::conformance::block_on;
use lease_machines_store::{
    Ending, ErrorKind, HoldOutcome, PostgresStore, Released, Renewed, Store, Undecided,
};

use crate::blocked::{harmed, while_blocked};
use crate::help::{claim, claim_for, granted, lease};
use crate::servers::postgres::Server;

#[test]
fn the_last_holds_are_kept_and_no_others() {
    let server = Server::shared();
    let (schema, url) = server.fresh();
    let open = |history: &str| PostgresStore::open(&format!("{url}&history={history}")).unwrap();
    let (three, five) = (open("3"), open("5"));
    let job = claim("job", 1).resource;
    let seen = |store: &PostgresStore| -> Vec<(u64, HoldOutcome)> {
        let told = block_on(store.history(job.clone(), 100)).unwrap();
        told.iter().map(|hold| (hold.token.value(), hold.outcome)).collect()
    };
    let mut tokens = Vec::new();
    for owner in 1..=9 {
        let store = if owner <= 6 { &five } else { &three };
        let grant = granted(store, claim("job", owner));
        tokens.push(grant.token.value());
        let _ = block_on(store.release(lease("job", owner, grant), Ending::default())).unwrap();
    }
    // As few as the smaller number, once it has been round; those in the other places are still there.
    let kept = seen(&three);
    assert_eq!(kept.iter().map(|hold| hold.0).take(3).collect::<Vec<_>>(), [tokens[8], tokens[7], tokens[6]]);
    assert!(kept.iter().all(|hold| hold.1 == HoldOutcome::Released), "{kept:?}");
    // What is burnt while nobody holds it has a place, too, and takes none from a hold that is kept.
    let _ = block_on(three.revoke(job.clone(), None, None)).unwrap();
    let _ = granted(&three, claim_for("job", 20, Duration::from_millis(400)));
    std::thread::sleep(Duration::from_millis(450));
    let last = granted(&three, claim("job", 21));
    let outcomes: Vec<_> = seen(&three).into_iter().map(|hold| hold.1).take(4).collect();
    assert_eq!(
        outcomes,
        [HoldOutcome::Held, HoldOutcome::Expired, HoldOutcome::Revoked, HoldOutcome::Released]
    );
    let _ = block_on(three.revoke(job.clone(), Some(last.token), None)).unwrap();
    assert_eq!(seen(&three)[0], (last.token.value(), HoldOutcome::Revoked));
    let rows = server.sql(&format!("SELECT count(*) FROM {schema}.lease_history WHERE name = 'job'"));
    assert_eq!(rows, ["5"], "as many places as were ever asked for");
}

#[test]
fn one_call_renews_what_can_be_and_answers_the_rest_each_by_its_own_reason() {
    let server = Server::shared();
    let (schema, url) = server.fresh();
    let store = PostgresStore::open(&url).unwrap();
    let minute = Duration::from_secs(60);
    let held = |name: &str| lease(name, 1, granted(&store, claim(name, 1)));
    let (a, b, c, d) = (held("a"), held("b"), held("c"), held("d"));
    let gone = held("gone");
    let _ = block_on(store.release(gone.clone(), Ending::default())).unwrap();
    let mut other = d.clone();
    other.owner = lease_machines::OwnerId::new(9);
    let told = |leases: &[&lease_machines_store::LeaseRef]| -> Vec<String> {
        let asked = leases.iter().map(|lease| ((*lease).clone(), minute)).collect();
        let answers = block_on(store.renew_many(asked)).unwrap();
        answers
            .into_iter()
            .map(|answer| match answer.unwrap() {
                Renewed::Renewed(grant) => {
                    assert_eq!(grant.ttl, minute);
                    "renewed".to_owned()
                }
                Renewed::Rejected(why) => format!("{:?}", why.reason),
                other => panic!("{other:?}"),
            })
            .collect()
    };
    // In whatever order they stand, also twice.
    assert_eq!(told(&[&c, &a, &b]), ["renewed"; 3]);
    assert_eq!(told(&[&a, &b, &c]), ["renewed"; 3]);
    assert_eq!(told(&[&b, &a, &b]), ["renewed"; 3]);
    assert_eq!(told(&[&a, &other, &c]), ["renewed", "WrongOwner", "renewed"]);
    assert_eq!(told(&[&gone, &b, &other]), ["Vacant", "renewed", "WrongOwner"]);
    // Somebody has one of them locked for longer than the caller allows: that one alone is not done.
    let store = PostgresStore::open(&format!("{url}&timeout=500ms")).unwrap();
    let say = harmed(&schema, "SELECT FROM {schema}.lease_row WHERE name = 'b' FOR UPDATE");
    let answers =
        block_on(store.renew_many([&a, &b, &c].map(|lease| (lease.clone(), minute)).into())).unwrap();
    say("COMMIT");
    assert!(matches!((&answers[0], &answers[2]), (Ok(Renewed::Renewed(_)), Ok(Renewed::Renewed(_)))));
    assert_eq!(answers[1].as_ref().unwrap_err().undecided(), Undecided::NotDone, "{answers:?}");
}

#[test]
fn a_prune_that_fails_on_its_way_is_unknown() {
    let server = Server::shared();
    let (schema, url) = server.fresh();
    let store = PostgresStore::open(&url).unwrap();
    server.sql(&format!(
        "INSERT INTO {schema}.lease_row (name, last_issued, observed)
         SELECT convert_to('job-' || n, 'UTF8'), n, 0 FROM generate_series(1, 2001) AS n"
    ));
    // The first of its transactions raises the floor from 0.
    server.sql(&format!(
        "CREATE FUNCTION {schema}.fail() RETURNS trigger LANGUAGE plpgsql AS
         $$ BEGIN RAISE EXCEPTION 'in the way' USING ERRCODE = 'deadlock_detected'; END $$;
         CREATE TRIGGER fails BEFORE UPDATE ON {schema}.lease_floor FOR EACH ROW WHEN (OLD.floor > 0)
         EXECUTE FUNCTION {schema}.fail()"
    ));
    let error = block_on(store.prune(Duration::ZERO)).unwrap_err();
    assert_eq!(block_on(store.list(String::new())).unwrap().len(), 1, "{error:?}");
    assert_eq!((error.kind(), error.undecided()), (ErrorKind::Busy, Undecided::Unknown), "{error:?}");
    let error = block_on(store.prune(Duration::ZERO)).unwrap_err();
    assert_eq!((error.kind(), error.undecided()), (ErrorKind::Busy, Undecided::NotDone), "{error:?}");
}

/// Places of the history are used anew: one that was chosen for its old entry may have a new one.
#[test]
fn a_prune_leaves_what_was_written_while_it_waited() {
    let (schema, url) = Server::shared().fresh();
    let store = PostgresStore::open(&url).unwrap();
    for owner in 1..=2 {
        let held = lease("job", owner, granted(&store, claim("job", owner)));
        assert_eq!(block_on(store.release(held, Ending::default())).unwrap(), Released::Released);
    }
    let server = Server::shared();
    let count = format!("SELECT count(*) FROM {schema}.lease_history");
    let all = server.sql(&count);
    assert_ne!(all, ["0"]);
    server.sql(&format!("UPDATE {schema}.lease_history SET ends_at = 0"));
    let written = "UPDATE {schema}.lease_history SET ends_at = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
    let hour = Duration::from_secs(3600);
    while_blocked(&schema, written, "COMMIT", || block_on(store.prune(hour)).unwrap());
    assert_eq!(server.sql(&count), all);
}
