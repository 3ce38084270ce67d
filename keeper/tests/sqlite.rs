//! Leases in a real file, by the real clock.
#![allow(clippy::unwrap_used, reason = "a test's own helpers")]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lease_machines_keeper::{
    DatabaseMark, HoldError, HoldOptions, Lease, LeaseState, LossReason, ManualClock, MarkError, Scheduler,
    Verdict, hold, shutdown, with_lease,
};
use lease_machines_store::{
    GuardErrorKind, GuardMode, MarkKey, ResourceName, SqliteFence, Store, WorkResult, open, open_marks,
};

const SECOND: Duration = Duration::from_secs(1);

fn store(folder: &Path) -> Arc<dyn Store> {
    open(&format!("sqlite:{}", folder.join("leases.db").display())).unwrap()
}

#[tokio::test]
async fn a_lease_is_held_beyond_its_ttl_and_taken_over_by_a_waiter() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (store(folder.path()), store(folder.path()));
    let guard = hold(&first, "job", HoldOptions::new().ttl(SECOND)).await.unwrap();
    let waiting = tokio::spawn(async move {
        let guard = hold(&second, "job", HoldOptions::new().ttl(SECOND).wait_forever()).await.unwrap();
        (guard.token(), guard.release(WorkResult::Good).await)
    });
    tokio::time::sleep(SECOND * 2).await;
    assert!(guard.may_act(), "renewed: {:?}", guard.loss());
    assert!(!waiting.is_finished());
    let token = guard.token();
    assert!(guard.release(WorkResult::Good).await.stood());
    let (next, verdict) = waiting.await.unwrap();
    assert!(next > token);
    assert!(verdict.stood());
}

#[tokio::test]
async fn the_mark_of_a_database_is_raised_before_the_work_begins_and_a_higher_one_keeps_it_from_beginning() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let data = folder.path().join("data.db");
    std::fs::write(&data, "").unwrap();
    let marks = open_marks(&format!("sqlite:{}", data.display())).unwrap();
    let fenced = || {
        let mark = DatabaseMark::new(Arc::clone(&marks)).in_store("jobs").in_slot(2);
        HoldOptions::new().fence(Arc::new(mark))
    };
    let key = || MarkKey::new(ResourceName::new("job").unwrap()).in_store("jobs").in_slot(2);

    let guard = hold(&store, "job", fenced()).await.unwrap();
    let mark = marks.look(key()).await.unwrap().unwrap();
    assert_eq!((mark.token, mark.owner), (guard.token(), guard.lease_ref().owner));
    let mut newer = guard.lease_ref().clone();
    newer.token = newer.token.next().unwrap().next().unwrap();
    assert!(guard.release(WorkResult::Good).await.stood());

    marks.advance(key(), newer.clone()).await.unwrap();
    let error = hold(&store, "job", fenced()).await.unwrap_err();
    let HoldError::Fence { error: MarkError::Stale { held, highest }, .. } = error else { panic!("{error}") };
    assert_eq!(highest, Some(newer.token));
    assert!(held < newer.token);
    assert!(
        store.inspect(newer.resource).await.unwrap().occupant.is_none(),
        "what was granted is given back"
    );
}

#[tokio::test]
async fn an_operator_ends_a_lease() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let guard = hold(&store, "job", HoldOptions::new().ttl(SECOND)).await.unwrap();
    let _ = store.revoke(ResourceName::new("job").unwrap(), Some(guard.token()), None).await.unwrap();
    assert!(matches!(guard.lost().await, LossReason::Revoked));
    assert_eq!(guard.state(), LeaseState::Expired);
    assert!(matches!(guard.release(WorkResult::Good).await, Verdict::Lost(LossReason::Revoked)));
}

#[tokio::test]
async fn work_is_done_once_whoever_asks_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let once = || HoldOptions::new().once("2024-02-29").label("night shift");
    let worked = with_lease(&store, "report", once(), async |_| Ok::<_, ()>(1)).await.unwrap();
    assert!(worked.is_good());
    let error = with_lease(&store, "report", once(), async |_| Ok::<_, ()>(2)).await.unwrap_err();
    let HoldError::AlreadyDone(done) = error else { panic!("{error}") };
    assert_eq!(done.end.label.as_deref(), Some("night shift"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_after_the_other_from_two_schedulers_on_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let inside = Arc::new(AtomicU64::new(0));
    let last = Arc::new(AtomicU64::new(0));
    let workers: Vec<_> = (0..2)
        .flat_map(|_| {
            let scheduler = Scheduler::new(store(folder.path()));
            (0..4).map(move |_| scheduler.clone())
        })
        .map(|scheduler| {
            let (inside, last) = (Arc::clone(&inside), Arc::clone(&last));
            tokio::spawn(async move {
                for _ in 0..10 {
                    let work = async |lease: lease_machines_keeper::Lease| {
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "alone");
                        let token = lease.token().value();
                        assert!(last.swap(token, Ordering::SeqCst) < token, "tokens go up");
                        tokio::task::yield_now().await;
                        inside.fetch_sub(1, Ordering::SeqCst);
                        Ok::<_, ()>(())
                    };
                    let worked =
                        scheduler.with_lease("a", HoldOptions::new().wait_forever(), work).await.unwrap();
                    assert!(worked.is_good(), "{worked:?}");
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.unwrap();
    }
}

#[tokio::test]
async fn a_dropped_guard_is_released_before_the_program_ends() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    drop(hold(&store, "job", HoldOptions::new()).await.unwrap());
    shutdown(SECOND * 10).await.unwrap();
    assert!(hold(&store, "job", HoldOptions::new()).await.is_ok());
}

/// etcd#10811, apache/curator#727, with everything real: a holder that is paused past its ttl finds its write refused
/// before its successor has written.
#[tokio::test]
async fn a_paused_holder_is_refused_before_its_successor_has_written() {
    let folder = tempfile::tempdir().unwrap();
    let (leases, data) = (store(folder.path()), folder.path().join("data.db"));
    let connection = || rusqlite::Connection::open(&data).unwrap();
    connection().execute_batch("CREATE TABLE writes (token INTEGER)").unwrap();
    let marks = open_marks(&format!("sqlite:{}", data.display())).unwrap();
    let write = |lease: &Lease| -> Result<(), GuardErrorKind> {
        let mut connection = connection();
        let transaction = connection.transaction().unwrap();
        let key = MarkKey::new(lease.resource().clone());
        SqliteFence::guard(&transaction, &key, lease.lease_ref(), GuardMode::Auto)
            .map_err(|error| error.kind())?;
        transaction.execute("INSERT INTO writes VALUES (?1)", [lease.token().value() as i64]).unwrap();
        transaction.commit().unwrap();
        Ok(())
    };
    // The clock of the first one stands still: so does everything that it would have noticed.
    let paused = Scheduler::with_clock(Arc::clone(&leases), Arc::new(ManualClock::new()));
    let options = || HoldOptions::new().ttl(SECOND / 2).wait_forever();
    let first =
        paused.hold("job", options().fence(Arc::new(DatabaseMark::new(Arc::clone(&marks))))).await.unwrap();
    write(&first).unwrap();
    let second =
        hold(&leases, "job", options().fence(Arc::new(DatabaseMark::new(Arc::clone(&marks))))).await.unwrap();
    assert!(first.may_act(), "it does not know");
    let refused = write(&first).unwrap_err();
    assert!(matches!(refused, GuardErrorKind::StaleToken { .. }), "{refused:?}");
    write(&second).unwrap();
    let connection = connection();
    let mut rows = connection.prepare("SELECT token FROM writes ORDER BY rowid").unwrap();
    let written: Vec<i64> = rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert_eq!(written, [first.token().value() as i64, second.token().value() as i64]);
}

#[test]
fn the_example_is_done_once_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    // Beside this test's own folder, where cargo puts what it builds for the same run.
    let test = std::env::current_exe().unwrap();
    let example = test.parent().and_then(Path::parent).unwrap().join("examples/nightly");
    let run = |night: &str| {
        let output =
            Command::new(&example).args(["leases.db", "reports.db", night]).current_dir(&folder).output();
        let output = output.unwrap_or_else(|error| panic!("{}: {error}", example.display()));
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(run("2024-02-29"), "written; Stood\n");
    let again = run("2024-02-29");
    assert!(
        again.starts_with("\"reports/nightly\" was done under the key \"2024-02-29\" by owner "),
        "{again}"
    );
    assert_eq!(run("2024-03-01"), "written; Stood\n");
    let reports = rusqlite::Connection::open(folder.path().join("reports.db")).unwrap();
    let count: u32 = reports.query_row("SELECT count(*) FROM report", [], |row| row.get(0)).unwrap();
    assert_eq!(count, 2);
}
