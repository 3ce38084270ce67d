//! A wait ends when another try is worth it, and at its limit.

use std::thread;
use std::time::{Duration, Instant};

use super::context::{Context, Outcome, name, told};
use super::subject::Need;
use super::{Case, block_on, case};

pub(super) const CASES: &[Case] = &[
    case("waiting for what is free takes no time", Need::Nothing, free),
    case("a release wakes those who wait", Need::Nothing, release),
    case("a release through another connection wakes them too", Need::Another, release_elsewhere),
    case("a deadline that passes wakes them", Need::Nothing, expiry),
    case("a wait ends at its limit", Need::Nothing, limit),
];

/// Real time that a waiter is given to be there, and to end; generous, since only a failure takes it.
const PATIENCE: Duration = Duration::from_secs(10);

fn free(context: &Context<'_>) -> Outcome<()> {
    ends(context, 1_000)
}

/// Waits for what may be free already; a store that does not answer is given up.
pub(super) fn ends(context: &Context<'_>, limit: u32) -> Outcome<()> {
    let waiter = wait(context, limit)?;
    let start = Instant::now();
    while !waiter.is_finished() && start.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(1));
    }
    ensure!(waiter.is_finished(), "the wait did not end");
    waiter.join().map_err(|_| "the waiter panicked".to_owned())?.map_err(told)
}

type Waiter = thread::JoinHandle<Result<(), crate::StoreError>>;

fn wait(context: &Context<'_>, limit: u32) -> Outcome<Waiter> {
    let (store, resource, limit) = (context.store(), name("job")?, context.units(limit));
    Ok(thread::spawn(move || block_on(store.wait(resource, limit))))
}

/// Waits on a thread, does something, and lets time pass in small steps where `moving`, until the wait ends.
fn woken_by(
    context: &Context<'_>,
    limit: u32,
    moving: bool,
    mut cause: impl FnMut() -> Outcome<()>,
) -> Outcome<()> {
    let waiter = wait(context, limit)?;
    // Long enough to be there; a waiter that is late only makes the case weaker.
    thread::sleep(Duration::from_millis(30));
    ensure!(!waiter.is_finished(), "the wait ended before anything happened");
    cause()?;
    let start = Instant::now();
    // On a real clock a lease of ten units takes that long to end.
    let patience =
        if context.fixture.is_driven() { PATIENCE } else { PATIENCE.saturating_add(context.units(10)) };
    while !waiter.is_finished() && start.elapsed() < patience {
        if moving {
            context.fixture.pass(context.fixture.unit() / 10);
        }
        thread::sleep(Duration::from_millis(1));
    }
    ensure!(waiter.is_finished(), "the wait did not end");
    waiter.join().map_err(|_| "the waiter panicked".to_owned())?.map_err(told)
}

fn release(context: &Context<'_>) -> Outcome<()> {
    let held = context.granted("job", 1)?;
    let lease = context.lease("job", 1, held)?;
    woken_by(context, 900, false, || context.release(&lease).map(drop))
}

fn release_elsewhere(context: &Context<'_>) -> Outcome<()> {
    let Some(other) = context.fixture.another() else { return Err("no second connection".into()) };
    let held = context.granted("job", 1)?;
    let lease = context.lease("job", 1, held)?;
    woken_by(context, 900, false, || {
        block_on(other.release(lease.clone(), crate::Ending::default())).map(drop).map_err(told)
    })
}

fn expiry(context: &Context<'_>) -> Outcome<()> {
    let _ = context.granted("job", 1)?;
    woken_by(context, 900, true, || Ok(()))?;
    let _ = context.granted("job", 2)?;
    Ok(())
}

fn limit(context: &Context<'_>) -> Outcome<()> {
    let mut claim = context.claim("job", 1)?;
    claim.ttl = context.units(900);
    let _ = super::context::grant(context.acquire(claim)?)?;
    woken_by(context, 3, true, || Ok(()))?;
    let _ = super::context::refused(context.acquire(context.claim("job", 2)?)?)?;
    Ok(())
}
