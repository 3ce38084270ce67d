//! A caller may leave at any moment, and leaves nothing held.

use std::thread;
use std::time::{Duration, Instant};

use lease_machines::OwnerId;

use super::context::{Context, Outcome, grant, name, told};
use super::subject::Need;
use super::task::abandon;
use super::{Case, block_on, case};
use crate::Acquired;

pub(super) const CASES: &[Case] = &[
    case("a future that is never polled does nothing", Need::Nothing, never_polled),
    case("an acquire that is given up holds nothing for long", Need::Nothing, given_up),
    case("whoever leaves a wait disturbs nobody", Need::Nothing, leave_wait),
];

fn never_polled(context: &Context<'_>) -> Outcome<()> {
    drop(context.store().acquire(context.claim("job", 1)?));
    let _ = context.granted("job", 2)?;
    Ok(())
}

fn given_up(context: &Context<'_>) -> Outcome<()> {
    let store = context.store();
    for owner in 1..=50 {
        let claim = context.claim("job", owner)?;
        abandon(store.acquire(claim));
        // What a caller does who does not know; the store may have done so by itself.
        let _ = block_on(store.withdraw(name("job")?, OwnerId::new(owner))).map_err(told)?;
    }
    let start = Instant::now();
    for owner in 1_000.. {
        match context.acquire(context.claim("job", owner)?)? {
            Acquired::Granted(_) => return Ok(()),
            other => ensure!(start.elapsed() < Duration::from_secs(20), "somebody left it held: {other:?}"),
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn leave_wait(context: &Context<'_>) -> Outcome<()> {
    let held = context.granted("job", 1)?;
    let store = context.store();
    for _ in 0..50 {
        abandon(store.wait(name("job")?, context.units(100)));
    }
    let _ = context.release(&context.lease("job", 1, held)?)?;
    super::waiting::ends(context, 100)?;
    let _ = grant(context.acquire(context.claim("job", 2)?)?)?;
    Ok(())
}
