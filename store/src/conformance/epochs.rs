//! The identity of a store's history.

use super::context::{Context, Outcome, told};
use super::subject::Need;
use super::{Case, block_on, case};
use crate::{Epoch, ErrorKind, Opening, Store};

pub(super) const CASES: &[Case] = &[
    case("a request for another epoch changes nothing, and says so", Need::Nothing, another),
    case("every grant names the store's epoch", Need::Nothing, named),
    case("a new epoch ends every lease of the old one", Need::Nothing, opened),
    case("of twenty who open an epoch, one does", Need::Nothing, compared),
];

/// A store may open no epochs at all, being asked by the engine alone.
fn opens(store: &dyn Store, opening: Opening) -> Outcome<Option<Epoch>> {
    match block_on(store.open_epoch(opening)) {
        Ok(epoch) => Ok(Some(epoch)),
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(None),
        Err(error) => Err(told(error)),
    }
}

fn named(context: &Context<'_>) -> Outcome<()> {
    let epoch = block_on(context.store().epoch()).map_err(told)?;
    let held = context.granted("job", 1)?;
    ensure!(held.epoch == epoch, "granted in {}, the store is in {epoch}", held.epoch);
    Ok(())
}

fn another(context: &Context<'_>) -> Outcome<()> {
    let current = block_on(context.store().epoch()).map_err(told)?;
    let other = Epoch::new(current.value() ^ 1).or(Epoch::new(2));
    let expected = ErrorKind::NewEpoch { current };
    let claim = context.claim("job", 1)?.with_epoch(other);
    let kind = block_on(context.store().acquire(claim)).map_err(|error| error.kind());
    ensure!(kind == Err(expected), "acquire was answered {kind:?}");
    let held = context.granted("job", 2)?;
    let mut lease = context.lease("job", 2, held)?;
    lease.epoch = other;
    let kind =
        block_on(context.store().renew(lease.clone(), context.units(10))).map_err(|error| error.kind());
    ensure!(kind == Err(expected), "renew was answered {kind:?}");
    let kind =
        block_on(context.store().release(lease, crate::Ending::default())).map_err(|error| error.kind());
    ensure!(kind == Err(expected), "release was answered {kind:?}");
    let claim = context.claim("job", 3)?.with_epoch(Some(current));
    let _ = super::context::refused(context.acquire(claim)?)?;
    Ok(())
}

fn opened(context: &Context<'_>) -> Outcome<()> {
    let old = block_on(context.store().epoch()).map_err(told)?;
    let held = context.granted("job", 1)?;
    let opening = Opening::new(old).with_dead_holders();
    let Some(new) = opens(&*context.store(), opening)? else { return Ok(()) };
    ensure!(new != old, "the epoch is still {old}");
    let kind = block_on(context.store().renew(context.lease("job", 1, held)?, context.units(10)))
        .map_err(|error| error.kind());
    ensure!(kind == Err(ErrorKind::NewEpoch { current: new }), "an old lease was answered {kind:?}");
    let next = context.granted("job", 2)?;
    ensure!(
        next.token.value() >= held.token.value() + (1 << 32),
        "token {} after {}",
        next.token,
        held.token
    );
    Ok(())
}

fn compared(context: &Context<'_>) -> Outcome<()> {
    let store = context.store();
    let old = block_on(store.epoch()).map_err(told)?;
    let answers: Vec<Outcome<Option<Epoch>>> = std::thread::scope(|scope| {
        let openers: Vec<_> = (0..20).map(|_| scope.spawn(|| opens(&*store, Opening::new(old)))).collect();
        openers
            .into_iter()
            .map(|one| one.join().map_err(|_| "a thread panicked".to_owned()).and_then(|x| x))
            .collect()
    });
    let current = block_on(store.epoch()).map_err(told)?;
    for answer in answers {
        let epoch = answer?;
        ensure!(epoch.is_none() || epoch == Some(current), "opened {epoch:?}, the store is in {current}");
    }
    Ok(())
}
