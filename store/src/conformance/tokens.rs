//! Tokens of a resource never repeat and never go down.

use lease_machines::{FencingToken, Rejection};

use super::context::{Context, Outcome, grant, name, not_released, refused, told};
use super::subject::Need;
use super::{Case, block_on, case};
use crate::{Revoked, VacatedHow};

pub(super) const CASES: &[Case] = &[
    case("tokens rise across release, expiry and rotation", Need::Nothing, rise),
    case("tokens end below 2^63 and begin above zero", Need::Nothing, bounded),
    case("a revoke burns a token", Need::Nothing, revoke_burns),
    case("a revoke breaks the lease that was meant, and no other", Need::Nothing, revoke_expects),
    case("another connection goes on with the same tokens", Need::Another, shared),
];

fn rise(context: &Context<'_>) -> Outcome<()> {
    let mut last = 0;
    for owner in 1..=12 {
        let first = context.granted("job", owner)?;
        ensure!(first.token.value() > last, "token {} after {last}", first.token);
        let mut again = context.claim("job", owner)?;
        again = again.with_attempt(2);
        let rotated = grant(context.reacquire(again)?)?;
        ensure!(rotated.token > first.token, "token {} after {}", rotated.token, first.token);
        last = rotated.token.value();
        if owner % 2 == 0 {
            let _ = context.release(&context.lease("job", owner, rotated)?)?;
        } else {
            context.pass(11);
        }
    }
    Ok(())
}

fn bounded(context: &Context<'_>) -> Outcome<()> {
    let token = context.granted("job", 1)?.token.value();
    ensure!(i64::try_from(token).is_ok(), "token {token} does not fit 63 bits");
    Ok(())
}

fn revoke_burns(context: &Context<'_>) -> Outcome<()> {
    let held = context.granted("job", 1)?;
    let answer = block_on(context.store().revoke(name("job")?, None, Some("stuck".into()))).map_err(told)?;
    let burnt = expect!(answer, Revoked::Burnt(token) => token, "expected a burnt token");
    ensure!(burnt > held.token, "burnt {burnt}, not above the lease's {}", held.token);
    let lost = not_released(context.release(&context.lease("job", 1, held)?)?)?;
    ensure!(lost.reason == Rejection::Vacant, "a revoked lease was refused as {:?}", lost.reason);
    let how = lost.vacated.map(|vacated| (vacated.token, vacated.how));
    ensure!(how == Some((held.token, VacatedHow::Revoked)), "its holder was told {how:?}");
    let next = context.granted("job", 2)?;
    ensure!(next.token > burnt, "token {} after {burnt} was burnt", next.token);
    // Of a resource that nobody holds, too: a fence may be ahead of it.
    let answer = block_on(context.store().revoke(name("free")?, None, None)).map_err(told)?;
    let burnt = expect!(answer, Revoked::Burnt(token) => token, "expected a burnt token");
    ensure!(context.granted("free", 1)?.token > burnt, "a burnt token was issued");
    Ok(())
}

fn revoke_expects(context: &Context<'_>) -> Outcome<()> {
    let held = context.granted("job", 1)?;
    let other = FencingToken::new(held.token.value().saturating_sub(1).max(1));
    let answer = block_on(context.store().revoke(name("job")?, other, None)).map_err(told)?;
    let rejected = expect!(answer, Revoked::Rejected(rejected) => rejected, "expected a refusal");
    ensure!(rejected.reason == Rejection::StaleToken, "refused as {:?}", rejected.reason);
    let answer = block_on(context.store().revoke(name("free")?, other, None)).map_err(told)?;
    let rejected = expect!(answer, Revoked::Rejected(rejected) => rejected, "expected a refusal");
    ensure!(rejected.reason == Rejection::Vacant, "refused as {:?}", rejected.reason);
    let still = refused(context.acquire(context.claim("job", 2)?)?)?;
    ensure!(still.reason == Rejection::Occupied, "the lease did not stand: {still:?}");
    Ok(())
}

fn shared(context: &Context<'_>) -> Outcome<()> {
    let Some(other) = context.fixture.another() else { return Err("no second connection".into()) };
    let mut last = 0;
    for owner in (1..=10).step_by(2) {
        let here = context.granted("job", owner)?;
        let there = block_on(other.acquire(context.claim("job", owner + 1)?)).map_err(told)?;
        let there = refused(there)?;
        ensure!(
            there.occupant.as_ref().map(|occupant| occupant.token) == Some(here.token),
            "the other connection saw {there:?}, not token {}",
            here.token
        );
        let _ = context.release(&context.lease("job", owner, here)?)?;
        let next = grant(block_on(other.acquire(context.claim("job", owner + 1)?)).map_err(told)?)?;
        ensure!(
            next.token > here.token && here.token.value() > last,
            "tokens went {last}, {here:?}, {next:?}"
        );
        last = next.token.value();
        let _ = context.release(&context.lease("job", owner + 1, next)?)?;
    }
    Ok(())
}
