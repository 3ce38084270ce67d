//! A worker that was paused while its lease ended is refused where it writes: in the transaction itself.
//!
//! `cargo run -p lease-machines-store --features bundled --example paused_worker`

use std::error::Error;

use lease_machines::{FencingToken, OwnerId};
use lease_machines_store::{GuardMode, LeaseRef, MarkKey, ResourceName, SqliteFence};
use rusqlite::Connection;

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let mut data = Connection::open_in_memory()?;
    data.execute_batch("CREATE TABLE report (line TEXT)")?;
    SqliteFence::set_up(&data)?;

    // As a store grants them, one after the other: the second one's token is greater.
    let paused = lease(1)?;
    let successor = lease(2)?;

    write(&mut data, &paused, "first line")?;
    // Here the worker sleeps past the end of its lease, and the next one is told that it may begin. Before it reads or
    // writes anything, it raises the mark.
    SqliteFence::advance(&mut data, &MarkKey::new(successor.resource.clone()), &successor)?;
    // The first one wakes. It looks at no clock, and believes that it still holds the lease.
    match write(&mut data, &paused, "second line, too late") {
        Err(refused) => println!("refused: {refused}"),
        Ok(()) => return Err("the one who overslept has written".into()),
    }
    write(&mut data, &successor, "second line")?;

    let lines: i64 = data.query_row("SELECT count(*) FROM report", [], |row| row.get(0))?;
    println!("{lines} lines, none of them too late");
    Ok(())
}

/// The guard comes first in the transaction that writes; without a commit, neither the mark nor the line is there.
fn write(data: &mut Connection, lease: &LeaseRef, line: &str) -> Result<(), Box<dyn Error>> {
    let transaction = data.transaction()?;
    SqliteFence::guard(&transaction, &MarkKey::new(lease.resource.clone()), lease, GuardMode::Auto)?;
    transaction.execute("INSERT INTO report VALUES (?1)", [line])?;
    transaction.commit()?;
    Ok(())
}

fn lease(token: u64) -> Result<LeaseRef, Box<dyn Error>> {
    let token = FencingToken::new(token).ok_or("a token is not 0")?;
    Ok(LeaseRef::new(ResourceName::new("report")?, OwnerId::new(token.value()), token, None))
}
