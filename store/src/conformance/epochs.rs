//! The identity of a store's history.

use lease_machines::{FencingToken, Rejection};

use super::context::{Context, Outcome, name, not_renewed, told};
use super::subject::Need;
use super::{Case, block_on, case};
use crate::{Acquired, Ending, Epoch, ErrorKind, LeaseRef, Opening, Store, WorkResult};

pub(super) const CASES: &[Case] = &[
    case("a request for another epoch changes nothing, and says so", Need::Nothing, another),
    case("every grant names the store's epoch", Need::Nothing, named),
    case("a new epoch ends every lease of the old one", Need::Nothing, opened),
    case("a lease of an old epoch is neither released nor echoed", Need::Nothing, old_lease),
    case("where old holders may be at work, nothing is granted", Need::Nothing, waited_for),
    case("of twenty who open an epoch, one does", Need::Nothing, compared),
    case("a token that was never issued shows a lost history", Need::Nothing, lost_history),
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

fn old_lease(context: &Context<'_>) -> Outcome<()> {
    let old = block_on(context.store().epoch()).map_err(told)?;
    let held = context.granted("job", 1)?;
    let Some(new) = opens(&*context.store(), Opening::new(old))? else { return Ok(()) };
    let echo = block_on(context.store().acquire(context.claim("job", 1)?)).map_err(|error| error.kind());
    ensure!(echo == Err(ErrorKind::Superseded), "an echo of its grant was answered {echo:?}");
    for epoch in [Some(old), None] {
        let lease = LeaseRef { epoch, ..context.lease("job", 1, held)? };
        let release = block_on(context.store().release(lease, Ending::new(WorkResult::Good)));
        let release = release.map_err(|error| error.kind());
        ensure!(
            release == Err(ErrorKind::NewEpoch { current: new }),
            "released as of {epoch:?}: {release:?}"
        );
    }
    let seen = block_on(context.store().inspect(name("job")?)).map_err(told)?;
    ensure!(
        seen.last_good.is_none(),
        "work under a lease that was lost counts as done: {:?}",
        seen.last_good
    );
    Ok(())
}

fn waited_for(context: &Context<'_>) -> Outcome<()> {
    let old = block_on(context.store().epoch()).map_err(told)?;
    let held = context.granted("job", 1)?;
    let Some(_) = opens(&*context.store(), Opening::new(old))? else { return Ok(()) };
    // The lease that is known, and those that may be missing.
    for resource in ["job", "other"] {
        let answer = block_on(context.store().acquire(context.claim(resource, 2)?));
        ensure!(!matches!(answer, Ok(Acquired::Granted(_))), "{resource} was granted at once: {answer:?}");
    }
    if context.fixture.is_driven() {
        context.fixture.pass(context.store().capabilities().max_ttl);
        let next = context.granted("job", 3)?;
        ensure!(next.token > held.token, "{next:?} after {held:?}");
    }
    Ok(())
}

fn lost_history(context: &Context<'_>) -> Outcome<()> {
    const TWO_YEARS: u64 = 2 * 365 * 24 * 3_600 * 1_000_000;
    let store = context.store();
    let old = block_on(store.epoch()).map_err(told)?;
    // A store that opens no epochs for anybody is asked by one that is not its own.
    let other = Epoch::new(old.value() ^ 1).or(Epoch::new(2)).unwrap_or(old);
    if opens(&*store, Opening::new(other))?.is_none() {
        return Ok(());
    }
    let held = context.granted("job", 1)?;
    let shown = |ahead: u64, epoch| -> Outcome<LeaseRef> {
        let token = FencingToken::new(held.token.value().saturating_add(ahead)).ok_or("no such token")?;
        Ok(LeaseRef { token, epoch, ..context.lease("job", 1, held)? })
    };
    // Whoever does not say of which epoch it is, or shows what nobody can have issued yet, is only wrong.
    for (ahead, epoch) in [(1, None), (TWO_YEARS, Some(old))] {
        let wrong = not_renewed(context.renew(&shown(ahead, epoch)?)?)?;
        ensure!(wrong.reason == Rejection::StaleToken, "{ahead} ahead: {wrong:?}");
        let epoch = block_on(store.epoch()).map_err(told)?;
        ensure!(epoch == old, "a token {ahead} ahead ended every lease");
    }
    let lost = not_renewed(context.renew(&shown(1, Some(old))?)?)?;
    ensure!(lost.reason == Rejection::StaleToken, "the call itself is answered as by the core: {lost:?}");
    let new = block_on(store.epoch()).map_err(told)?;
    ensure!(new != old, "a grant that the store does not know went unnoticed");
    let kind = block_on(store.renew(context.lease("job", 1, held)?, context.units(10)));
    let kind = kind.map_err(|error| error.kind());
    ensure!(kind == Err(ErrorKind::NewEpoch { current: new }), "an old lease was answered {kind:?}");
    let answer = block_on(store.acquire(context.claim("other", 2)?));
    ensure!(!matches!(answer, Ok(Acquired::Granted(_))), "others may be missing, too: {answer:?}");
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
