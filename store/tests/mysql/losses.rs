//! Servers that have lost what they answered last: what shows it, and what does not; and what a dump leaves out.

use std::path::Path;
use std::time::{Duration, Instant};

use lease_machines_store::conformance::block_on;
use lease_machines_store::{
    Epoch, ErrorKind, LeaseRef, Migration, MysqlStore, Opening, Rejected, Renewed, Severity, Store,
    StoreError, Undecided, migrate,
};

use crate::help::{claim, granted, lease, on_both};
use crate::servers::mysql::{Kind, Server};

const TTL: Duration = Duration::from_secs(70);

fn open(url: &str) -> MysqlStore {
    MysqlStore::open(url).unwrap()
}

fn hold(store: &MysqlStore, name: &str) -> LeaseRef {
    lease(name, 1, granted(store, claim(name, 1)))
}

fn renew(store: &MysqlStore, lease: &LeaseRef) -> Result<Renewed, StoreError> {
    block_on(store.renew(lease.clone(), TTL))
}

/// Every lease of the old life is over, nothing is granted for as long as one may be held that is missing here, and no
/// token of `lost` is given again.
#[track_caller]
fn is_seen_as_a_loss(store: &MysqlStore, kept: &LeaseRef, lost: &LeaseRef) {
    let current = block_on(store.epoch()).unwrap();
    assert_ne!(Some(current), lost.epoch, "the loss went unnoticed");
    for lease in [kept, lost] {
        let error = renew(store, lease).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NewEpoch { current }, "{error}");
    }
    let error = block_on(store.acquire(claim("another", 2))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    assert!(error.to_string().contains("history was lost"), "{error}");
    let opened: Epoch = block_on(store.open_epoch(Opening::new(current).with_dead_holders())).unwrap();
    assert_ne!(opened, current);
    let next = granted(store, claim(lost.resource.as_str(), 2));
    assert!(next.token > lost.token, "{} was given again: {}", lost.token, next.token);
}

on_both! {
    a_replica_that_takes_over_and_lacks_a_grant_is_in_a_new_epoch
    files_that_were_put_back_are_noticed_by_the_holder_of_what_they_lack
    a_dump_without_procedures_is_told_from_a_wiped_store_and_mended
    procedures_of_an_older_program_are_refused_and_replaced
}

/// The same for both kinds, in their words.
fn follow(replica: &Server, source: &Server) {
    let (status, from, start) = match source.kind {
        Kind::MariaDb => ("SHOW MASTER STATUS", "CHANGE MASTER TO MASTER", "START SLAVE"),
        Kind::MySql => ("SHOW BINARY LOG STATUS", "CHANGE REPLICATION SOURCE TO SOURCE", "START REPLICA"),
    };
    let log = source.sql("", status).remove(0);
    let prefix = from.rsplit(' ').next().unwrap();
    let more = if source.kind == Kind::MySql { ", GET_SOURCE_PUBLIC_KEY = 1" } else { "" };
    // From its beginning, for the databases that are made from here on; the account is there already.
    replica.sql(
        "",
        &format!(
            "{from}_HOST = '127.0.0.1', {prefix}_PORT = {}, {prefix}_USER = 'guarded', {prefix}_PASSWORD = 'right', \
             {prefix}_LOG_FILE = '{log}', {prefix}_LOG_POS = {}{more}",
            source.port,
            position(source, status)
        ),
    );
    replica.sql("", start);
}

fn position(source: &Server, status: &str) -> String {
    source.columns("", status).remove(0).remove(1)
}

fn a_replica_that_takes_over_and_lacks_a_grant_is_in_a_new_epoch(kind: Kind) {
    let source = Server::start(kind, &["--log-bin=log", "--server-id=1"]);
    let replica = Server::start(kind, &["--server-id=2"]);
    follow(&replica, &source);
    let (database, url) = source.fresh();
    let kept = hold(&open(&url), "kept");
    let has = |server: &Server, name: &str| {
        let look = format!("SELECT 1 FROM lease_row WHERE name = '{name}' AND token IS NOT NULL");
        server.try_sql(&database, &look).is_ok_and(|rows| !rows.is_empty())
    };
    let begun = Instant::now();
    while !has(&replica, "kept") {
        assert!(begun.elapsed() < Duration::from_secs(60), "it does not follow: {}", replica.guarded.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    // It looks at nothing that is committed from here on.
    replica.sql("", if kind == Kind::MySql { "STOP REPLICA" } else { "STOP SLAVE" });
    let lost = hold(&open(&url), "lost");
    drop(source);
    assert!(!has(&replica, "lost"));
    is_seen_as_a_loss(&open(&replica.url(&database)), &kept, &lost);
}

/// Files that were put back have the name that they had. What shows the loss is a lease that they do not know; until its holder
/// comes, nothing does.
fn files_that_were_put_back_are_noticed_by_the_holder_of_what_they_lack(kind: Kind) {
    let mut server = Server::start(kind, &[]);
    let (_, url) = server.fresh();
    let kept = hold(&open(&url), "kept");
    server.kill();
    server.guarded.run(Path::new("cp"), &["-a", "data", "copy"]);
    server.up();
    let lost = hold(&open(&url), "lost");
    server.kill();
    server.guarded.run(Path::new("rm"), &["-r", "data"]);
    server.guarded.run(Path::new("mv"), &["copy", "data"]);
    server.up();
    let store = open(&url);
    assert_eq!(Some(block_on(store.epoch()).unwrap()), kept.epoch, "it shows: say so in DESIGN.md");
    assert!(matches!(renew(&store, &kept).unwrap(), Renewed::Renewed(_)));
    let answer = renew(&store, &lost).unwrap();
    assert!(matches!(answer, Renewed::Rejected(Rejected { .. })), "{answer:?}");
    is_seen_as_a_loss(&store, &kept, &lost);
}

/// A dump has no procedures, unless it is asked for them. The tables came with the epoch, and not with the server's name.
fn a_dump_without_procedures_is_told_from_a_wiped_store_and_mended(kind: Kind) {
    let one = Server::start(kind, &["--server-id=1"]);
    let other = Server::start(kind, &["--server-id=2"]);
    let (database, url) = one.fresh();
    let kept = hold(&open(&url), "kept");
    let dump = one.guarded.path().join("dump.sql");
    let to = |server: &Server| {
        ["--no-defaults", "--host=127.0.0.1", "--user=lease"]
            .map(str::to_owned)
            .into_iter()
            .chain([format!("--port={}", server.port)])
            .collect::<Vec<_>>()
    };
    let dumping = to(&one).into_iter().chain([format!("--result-file={}", dump.display()), database.clone()]);
    let dumping: Vec<String> = dumping.collect();
    one.guarded.run(Path::new("mariadb-dump"), &dumping.iter().map(String::as_str).collect::<Vec<_>>());
    let lost = hold(&open(&url), "lost");
    other.sql("", &format!("CREATE DATABASE {database}"));
    let reading: Vec<String> = to(&other)
        .into_iter()
        .chain([database.clone(), format!("--execute=source {}", dump.display())])
        .collect();
    // As the user that may read the file.
    one.guarded.run(Path::new("mariadb"), &reading.iter().map(String::as_str).collect::<Vec<_>>());

    let url = other.url(&database);
    let store = open(&url);
    let error = renew(&store, &kept).unwrap_err();
    assert_eq!((error.kind(), error.undecided()), (ErrorKind::Schema, Undecided::Refused), "{error:?}");
    for word in ["--routines", "lease migrate", "lease epoch open"] {
        assert!(error.to_string().contains(word), "{error}");
    }
    assert_eq!(migrate(&url).unwrap(), Migration::Upgraded, "no new epoch is opened by that alone");
    is_seen_as_a_loss(&store, &kept, &lost);
}

fn procedures_of_an_older_program_are_refused_and_replaced(kind: Kind) {
    let server = Server::shared(kind);
    let (database, url) = server.fresh();
    let store = open(&url);
    let held = hold(&store, "job");
    let made = "SELECT COUNT(*) FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = DATABASE() \
                AND ROUTINE_COMMENT LIKE 'lease-machines, revision _'";
    let all = server.sql(&database, made);
    let procedures = |store: &MysqlStore| {
        let findings = block_on(store.doctor()).unwrap();
        findings.into_iter().find(|finding| finding.check == "procedures").unwrap()
    };
    assert_eq!(procedures(&store).severity, Severity::Fine);

    // One is missing, which whoever has a connection notices in the midst of it.
    server.sql(&database, "DROP PROCEDURE lease_renew_1");
    let error = renew(&store, &held).unwrap_err();
    assert_eq!((error.kind(), error.undecided()), (ErrorKind::Schema, Undecided::Refused), "{error:?}");
    assert!(error.to_string().contains("lease migrate"), "{error}");
    let told = procedures(&store);
    assert_eq!(told.severity, Severity::Error);
    assert!(told.found.contains("lease_renew_1 is missing"), "{told:?}");
    assert_eq!(migrate(&url).unwrap(), Migration::Upgraded);
    assert!(matches!(renew(&store, &held).unwrap(), Renewed::Renewed(_)));
    assert_eq!(procedures(&store).severity, Severity::Fine);

    // One that takes other arguments.
    server.sql(&database, "DROP PROCEDURE lease_renew_1; CREATE PROCEDURE lease_renew_1() SELECT 1");
    let error = renew(&open(&url), &held).unwrap_err();
    assert_eq!((error.kind(), error.undecided()), (ErrorKind::Schema, Undecided::Refused), "{error:?}");
    assert!(error.to_string().contains("lease migrate"), "{error}");
    assert!(procedures(&store).found.contains("lease_renew_1 is of an older program"));
    assert_eq!(migrate(&url).unwrap(), Migration::Upgraded);
    assert!(matches!(renew(&open(&url), &held).unwrap(), Renewed::Renewed(_)));

    // An older program's, which say so.
    server.sql(
        &database,
        "DROP PROCEDURE lease_revision_1; CREATE PROCEDURE lease_revision_1() SELECT 0 AS revision; \
         ALTER PROCEDURE lease_acquire_1 COMMENT 'lease-machines, revision 0'",
    );
    let error = renew(&open(&url), &held).unwrap_err();
    assert_eq!((error.kind(), error.undecided()), (ErrorKind::Schema, Undecided::Refused), "{error:?}");
    assert!(
        error.to_string().contains("older program") && error.to_string().contains("lease migrate"),
        "{error}"
    );
    assert_eq!(migrate(&url).unwrap(), Migration::Upgraded);
    assert!(matches!(renew(&open(&url), &held).unwrap(), Renewed::Renewed(_)));
    assert_eq!(server.sql(&database, made), all);
    assert_eq!(Some(block_on(store.epoch()).unwrap()), held.epoch);

    // One of a later program stays as it is.
    server.sql(&database, "ALTER PROCEDURE lease_renew_1 COMMENT 'lease-machines, revision 9999'");
    assert_eq!(migrate(&url).unwrap(), Migration::UpToDate);
    let later = "SELECT COUNT(*) FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = DATABASE() \
                 AND ROUTINE_COMMENT = 'lease-machines, revision 9999'";
    assert_eq!(server.sql(&database, later), ["1"]);

    // Where nothing is left at all, it was wiped.
    let tables = server.sql(&database, "SHOW TABLES");
    server.sql(&database, &format!("DROP TABLE {}; DROP PROCEDURE lease_epoch_1", tables.join(", ")));
    assert_eq!(renew(&open(&url), &held).unwrap_err().kind(), ErrorKind::NotSetUp);
}
