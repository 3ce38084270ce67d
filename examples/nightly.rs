//! A nightly report: done by one host, once a night, and written by nobody who has been replaced meanwhile.
//!
//! ```console
//! $ cargo run --example nightly -- leases.db reports.db 2024-02-29
//! ```
//!
//! Run it on two hosts that share a store, or twice in a row: the second one says who has done it, and when.

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use lease_machines_keeper::{DatabaseMark, HoldError, HoldOptions, Lease, with_lease};
use lease_machines_store::{GuardMode, MarkKey, SqliteFence, open, open_marks};
use rusqlite::{Connection, TransactionBehavior};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [leases, reports, night] = args.as_slice() else {
        eprintln!("usage: nightly LEASES REPORTS NIGHT");
        return Ok(ExitCode::from(64));
    };
    Connection::open(reports)?.execute_batch(
        "CREATE TABLE IF NOT EXISTS report (night TEXT PRIMARY KEY, text TEXT NOT NULL, token INTEGER NOT NULL)",
    )?;

    let options = HoldOptions::new()
        .ttl(Duration::from_secs(60))
        .max_hold(Duration::from_secs(3600))
        .wait(Duration::from_secs(600))
        .once(night)
        .label(format!("nightly:{}", std::process::id()))
        // Before the work begins, whoever was here last is shut out of the reports.
        .fence(Arc::new(DatabaseMark::new(open_marks(&format!("sqlite:{reports}"))?)));

    let store = open(&format!("sqlite:{leases}"))?;
    let report = async |lease: Lease| {
        let text = format!("all is well, {night}");
        write(reports, night, &text, &lease)
    };
    match with_lease(&store, "reports/nightly", options, report).await {
        Err(HoldError::AlreadyDone(done)) => println!("{done}"),
        Err(error) => return Err(error.into()),
        Ok(worked) => {
            let Some(written) = worked.value else {
                return Err(format!("stopped: {:?}", worked.stopped).into());
            };
            written?;
            println!("written; {:?}", worked.verdict);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The guard and the write are one transaction: either this lease is still the newest that the reports know of, or
/// nothing is written.
fn write(reports: &str, night: &str, text: &str, lease: &Lease) -> Result<(), Box<dyn Error>> {
    let mut connection = Connection::open(reports)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let key = MarkKey::new(lease.resource().clone());
    SqliteFence::guard(&transaction, &key, lease.lease_ref(), GuardMode::Auto)?;
    transaction.execute(
        "INSERT INTO report (night, text, token) VALUES (?1, ?2, ?3)",
        (night, text, i64::try_from(lease.token().value())?),
    )?;
    Ok(transaction.commit()?)
}
