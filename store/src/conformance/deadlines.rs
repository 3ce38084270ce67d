//! Leases last exactly as long as they were granted for, by the store's clock.

use std::time::Duration;

use lease_machines::Rejection;

use super::context::{Context, Outcome, grant, name, not_released, not_renewed, over, refused, told};
use super::subject::Need;
use super::{Case, block_on, case};
use crate::{Acquired, Claim, ErrorKind, Renewed};

pub(super) const CASES: &[Case] = &[
    case("a lease keeps others out until its deadline and not longer", Need::Nothing, until_deadline),
    case("1 ms, 500 ms and 1.5 s are exact", Need::Millis, exact),
    case("the granted ttl is the one that was asked for", Need::Nothing, granted_ttl),
    case("a renewal extends and never shortens", Need::Driven, extends),
    case("a late renewal revives nothing, and says expired", Need::Nothing, late_renewal),
    case("once told expired, always expired", Need::Expired, stays_expired),
    case("a ttl of zero is invalid, one above the limit refused", Need::Nothing, out_of_range),
    case("who holds it, since when and for how long", Need::Nothing, occupant),
];

fn until_deadline(context: &Context<'_>) -> Outcome<()> {
    let first = context.granted("job", 1)?;
    context.pass(8);
    let rejected = refused(context.acquire(context.claim("job", 2)?)?)?;
    ensure!(rejected.reason == Rejection::Occupied, "before its deadline: {rejected:?}");
    context.pass(3);
    let second = context.granted("job", 2)?;
    ensure!(second.token > first.token, "{second:?} after {first:?}");
    let late = not_released(context.release(&context.lease("job", 1, first)?)?)?;
    ensure!(late.reason == Rejection::WrongOwner, "the overslept holder was told {late:?}");
    Ok(())
}

fn exact(context: &Context<'_>) -> Outcome<()> {
    for (owner, millis) in [(1, 1), (3, 500), (5, 1_500)] {
        let ttl = Duration::from_millis(millis);
        let resource = format!("job-{millis}");
        let claim = |owner| Ok::<_, String>(Claim { ttl, ..context.claim(&resource, owner)? });
        let found = grant(context.acquire(claim(owner)?)?)?.ttl;
        ensure!(found == ttl, "granted {found:?} for {ttl:?}");
        context.fixture.pass(ttl.saturating_sub(Duration::from_micros(1)));
        let _ = refused(context.acquire(claim(owner + 1)?)?)?;
        context.fixture.pass(Duration::from_micros(1));
        let _ = grant(context.acquire(claim(owner + 1)?)?)?;
    }
    Ok(())
}

fn granted_ttl(context: &Context<'_>) -> Outcome<()> {
    let grain = context.store().capabilities().ttl_grain;
    let asked = context.units(10);
    let found = context.granted("job", 1)?;
    ensure!(
        found.ttl >= asked.saturating_sub(context.fixture.unit()) && found.ttl <= asked.saturating_add(grain),
        "granted {:?} for {asked:?}",
        found.ttl
    );
    Ok(())
}

fn extends(context: &Context<'_>) -> Outcome<()> {
    let held = context.granted("job", 1)?;
    let lease = context.lease("job", 1, held)?;
    context.pass(4);
    let short = block_on(context.store().renew(lease.clone(), context.units(1))).map_err(told)?;
    let short = expect!(short, Renewed::Renewed(grant) => grant, "expected a renewal");
    ensure!(context.same(short.ttl, context.units(6)), "a short renewal left {:?} of 6 units", short.ttl);
    ensure!(short.token == held.token, "a renewal changed the token");
    let long = expect!(context.renew(&lease)?, Renewed::Renewed(grant) => grant, "expected a renewal");
    ensure!(context.same(long.ttl, context.units(10)), "a renewal gave {:?}", long.ttl);
    context.pass(9);
    let _ = refused(context.acquire(context.claim("job", 2)?)?)?;
    Ok(())
}

fn late_renewal(context: &Context<'_>) -> Outcome<()> {
    let held = context.granted("job", 1)?;
    let lease = context.lease("job", 1, held)?;
    context.pass(11);
    let late = not_renewed(context.renew(&lease)?)?;
    ensure!(over(&*context.store(), late.reason), "a late renewal was told {:?}", late.reason);
    let late = not_released(context.release(&lease)?)?;
    ensure!(over(&*context.store(), late.reason), "a late release was told {:?}", late.reason);
    let _ = context.granted("job", 2)?;
    Ok(())
}

fn stays_expired(context: &Context<'_>) -> Outcome<()> {
    let held = context.granted("job", 1)?;
    let lease = context.lease("job", 1, held)?;
    context.pass(11);
    for _ in 0..3 {
        let late = not_renewed(context.renew(&lease)?)?;
        ensure!(late.reason == Rejection::Expired, "told {:?}", late.reason);
    }
    let echo = block_on(context.store().acquire(context.claim("job", 1)?));
    let kind = echo.map_err(|error| error.kind());
    ensure!(kind == Err(ErrorKind::Superseded), "its echo was answered {kind:?}");
    Ok(())
}

fn out_of_range(context: &Context<'_>) -> Outcome<()> {
    let zero = Claim { ttl: Duration::ZERO, ..context.claim("job", 1)? };
    let rejected = refused(context.acquire(zero)?)?;
    ensure!(rejected.reason == Rejection::InvalidTtl, "a ttl of zero: {rejected:?}");
    let above = context.store().capabilities().max_ttl.saturating_add(Duration::from_millis(1));
    let above = Claim { ttl: above, ..context.claim("job", 1)? };
    match block_on(context.store().acquire(above)) {
        Err(error) if error.kind() == ErrorKind::Request => {}
        other => return Err(format!("a ttl above the limit: {other:?}")),
    }
    let held = context.granted("job", 1)?;
    let lease = context.lease("job", 1, held)?;
    let zero = block_on(context.store().renew(lease, Duration::ZERO)).map_err(told)?;
    let rejected = not_renewed(zero)?;
    ensure!(rejected.reason == Rejection::InvalidTtl, "a renewal by zero: {rejected:?}");
    Ok(())
}

fn occupant(context: &Context<'_>) -> Outcome<()> {
    let claim = context.claim("job", 1)?.with_label("alice").with_identity("host-1");
    let held = grant(context.acquire(claim)?)?;
    context.pass(4);
    let rejected = match context.acquire(context.claim("job", 2)?)? {
        Acquired::Rejected(rejected) => rejected,
        other => return Err(format!("expected a refusal: {other:?}")),
    };
    let Some(occupant) = rejected.occupant else { return Err("nobody was named".into()) };
    ensure!(occupant.owner.value() == 1 && occupant.token == held.token, "named {occupant:?}");
    ensure!(
        occupant.label.as_deref() == Some("alice") && occupant.identity.as_deref() == Some("host-1"),
        "called {occupant:?}"
    );
    ensure!(!occupant.retained, "its work goes on");
    ensure!(context.same(occupant.remaining, context.units(6)), "{:?} remain of 6 units", occupant.remaining);
    let held_for = occupant.held_for;
    let unit = context.fixture.unit();
    ensure!(
        held_for >= unit.saturating_mul(4) && held_for <= unit.saturating_mul(5),
        "held for {held_for:?}, expected 4 units"
    );
    let seen = block_on(context.store().inspect(name("job")?)).map_err(told)?;
    ensure!(seen.occupant.map(|who| who.token) == Some(held.token), "inspect does not see it");
    Ok(())
}
