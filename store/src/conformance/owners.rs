//! Owners and attempts: doubled, delayed and repeated requests are harmless.

use lease_machines::{FencingToken, OwnerId, Rejection};

use super::context::{Context, Outcome, grant, not_released, not_renewed, refused};
use super::subject::Need;
use super::{Case, block_on, case};
use crate::{Claim, ErrorKind, LeaseRef, Released, Renewed, VacatedHow};

pub(super) const CASES: &[Case] = &[
    case("only the owner, under its token, renews and releases", Need::Nothing, conditional),
    case("an echo is answered with what remains of the grant", Need::Nothing, echo),
    case("an echo whose grant no longer stands is superseded", Need::Nothing, superseded),
    case("a lost answer is asked for again with reacquire", Need::Nothing, asked_again),
    case("a second release of a token is already released", Need::Nothing, released_twice),
    case("nothing extends a released lease", Need::Nothing, released_for_good),
    case("withdraw vacates without a token, once for all", Need::Nothing, withdraw),
    case("withdraw takes nothing from others", Need::Nothing, withdraw_other),
    case("many are renewed in one request, each by itself", Need::Nothing, renew_many),
    case("an attempt is counted from 1", Need::Nothing, attempt_zero),
];

fn conditional(context: &Context<'_>) -> Outcome<()> {
    let held = context.granted("job", 1)?;
    let right = context.lease("job", 1, held)?;
    let wrong_owner = LeaseRef { owner: OwnerId::new(2), ..right.clone() };
    let older = FencingToken::new(held.token.value() - 1).ok_or("no older token")?;
    let stale = LeaseRef { token: older, ..right.clone() };
    // Without an epoch, so that a token never issued is only a wrong one.
    let ahead = FencingToken::new(held.token.value() + 1).ok_or("no newer token")?;
    let ahead = LeaseRef { token: ahead, epoch: None, ..right.clone() };
    let elsewhere = context.lease("free", 1, held)?;
    let elsewhere = LeaseRef { epoch: None, ..elsewhere };
    for (wrong, reason) in [
        (wrong_owner, Rejection::WrongOwner),
        (stale, Rejection::StaleToken),
        (ahead, Rejection::StaleToken),
        (elsewhere, Rejection::Vacant),
    ] {
        let renewal = not_renewed(context.renew(&wrong)?)?;
        ensure!(renewal.reason == reason, "renewed as {wrong:?}: {:?}, expected {reason:?}", renewal.reason);
        let release = not_released(context.release(&wrong)?)?;
        ensure!(release.reason == reason, "released as {wrong:?}: {:?}, expected {reason:?}", release.reason);
    }
    let _ = expect!(context.renew(&right)?, Renewed::Renewed(grant) => grant, "the right one");
    ensure!(context.release(&right)? == Released::Released, "the right one was not released");
    Ok(())
}

fn echo(context: &Context<'_>) -> Outcome<()> {
    let first = context.granted("job", 1)?;
    context.pass(4);
    let echo = context.granted("job", 1)?;
    ensure!(echo.token == first.token, "an echo was granted {}, not {}", echo.token, first.token);
    ensure!(context.same(echo.ttl, context.units(6)), "an echo was told {:?}, not what remains", echo.ttl);
    let again = grant(context.reacquire(context.claim("job", 1)?)?)?;
    ensure!(again.token == first.token, "an echo rotated the lease");
    context.pass(7);
    let _ = context.granted("job", 2)?;
    Ok(())
}

fn superseded(context: &Context<'_>) -> Outcome<()> {
    let held = context.granted("job", 1)?;
    let _ = context.release(&context.lease("job", 1, held)?)?;
    for again in [false, true] {
        let claim = context.claim("job", 1)?;
        let store = context.store();
        let answer = if again { store.reacquire(claim) } else { store.acquire(claim) };
        let kind = block_on(answer).map_err(|error| error.kind());
        ensure!(kind == Err(ErrorKind::Superseded), "a late double was answered {kind:?}");
    }
    let _ = context.granted("job", 2)?;
    Ok(())
}

fn asked_again(context: &Context<'_>) -> Outcome<()> {
    let lost = context.granted("job", 1)?;
    let again = grant(context.reacquire(context.claim("job", 1)?.with_attempt(2))?)?;
    ensure!(again.token > lost.token, "{again:?} does not replace {lost:?}");
    let stale = not_renewed(context.renew(&context.lease("job", 1, lost)?)?)?;
    ensure!(stale.reason == Rejection::StaleToken, "the lost grant: {stale:?}");
    // The first request, arriving late, does not undo that.
    let late = context.granted("job", 1)?;
    ensure!(late.token == again.token, "a late first request was answered {late:?}");
    let other = refused(context.reacquire(context.claim("job", 2)?)?)?;
    ensure!(other.reason == Rejection::Occupied, "a stranger's reacquire: {other:?}");
    Ok(())
}

fn released_twice(context: &Context<'_>) -> Outcome<()> {
    let held = context.granted("job", 1)?;
    let lease = context.lease("job", 1, held)?;
    ensure!(context.release(&lease)? == Released::Released, "not released");
    ensure!(
        context.release(&lease)? == Released::AlreadyReleased,
        "the second release did not know the first"
    );
    let next = context.granted("job", 2)?;
    ensure!(context.release(&lease)? == Released::AlreadyReleased, "the third did not");
    let still = refused(context.acquire(context.claim("job", 3)?)?)?;
    ensure!(
        still.occupant.map(|who| who.token) == Some(next.token),
        "a repeated release freed another's lease"
    );
    Ok(())
}

fn released_for_good(context: &Context<'_>) -> Outcome<()> {
    let held = context.granted("job", 1)?;
    let lease = context.lease("job", 1, held)?;
    let _ = context.release(&lease)?;
    let late = not_renewed(context.renew(&lease)?)?;
    ensure!(late.reason == Rejection::Vacant, "renewed after its release: {late:?}");
    let how = late.vacated.map(|vacated| vacated.how);
    ensure!(how == Some(VacatedHow::Released), "told {how:?}");
    let _ = context.granted("job", 2)?;
    Ok(())
}

fn withdraw(context: &Context<'_>) -> Outcome<()> {
    let held = context.granted("job", 1)?;
    ensure!(context.withdraw("job", 1)? == Released::Released, "not withdrawn");
    let _ = context.granted("job", 2)?;
    let late = context.claim("job", 1)?.with_attempt(9);
    for claim in [context.claim("job", 1)?, late] {
        let kind = block_on(context.store().reacquire(claim)).map_err(|error| error.kind());
        ensure!(kind == Err(ErrorKind::Superseded), "a withdrawn owner's request was answered {kind:?}");
    }
    let lost = not_renewed(context.renew(&context.lease("job", 1, held)?)?)?;
    ensure!(lost.reason == Rejection::WrongOwner, "its renewal: {lost:?}");
    // Before the request that it withdraws has come.
    let _ = context.withdraw("early", 1)?;
    let kind = block_on(context.store().acquire(context.claim("early", 1)?)).map_err(|error| error.kind());
    ensure!(kind == Err(ErrorKind::Superseded), "the request came through: {kind:?}");
    Ok(())
}

fn withdraw_other(context: &Context<'_>) -> Outcome<()> {
    let held = context.granted("job", 1)?;
    let rejected = not_released(context.withdraw("job", 2)?)?;
    ensure!(rejected.reason == Rejection::WrongOwner, "withdrawn by a stranger: {rejected:?}");
    let _ =
        expect!(context.renew(&context.lease("job", 1, held)?)?, Renewed::Renewed(grant) => grant, "lost it");
    Ok(())
}

fn renew_many(context: &Context<'_>) -> Outcome<()> {
    let mut leases = Vec::new();
    for index in 0..20_u64 {
        let resource = format!("job-{}", 19 - index);
        let held = context.granted(&resource, 1)?;
        let mut lease = context.lease(&resource, 1, held)?;
        if index % 5 == 0 {
            lease.owner = OwnerId::new(2);
        }
        leases.push((lease, context.units(20)));
    }
    let answers = block_on(context.store().renew_many(leases.clone())).map_err(super::context::told)?;
    ensure!(answers.len() == leases.len(), "{} answers to {} renewals", answers.len(), leases.len());
    for (index, (answer, (lease, _))) in answers.into_iter().zip(&leases).enumerate() {
        match answer {
            Ok(Renewed::Renewed(grant)) if index % 5 != 0 => {
                ensure!(grant.token == lease.token, "answers are out of order: {grant:?} for {lease:?}");
                ensure!(context.same(grant.ttl, context.units(20)), "renewed for {:?}", grant.ttl);
            }
            Ok(Renewed::Rejected(why)) if index % 5 == 0 && why.reason == Rejection::WrongOwner => {}
            other => return Err(format!("renewal {index}: {other:?}")),
        }
    }
    ensure!(
        block_on(context.store().renew_many(Vec::new())).map_err(super::context::told)?.is_empty(),
        "of none"
    );
    Ok(())
}

fn attempt_zero(context: &Context<'_>) -> Outcome<()> {
    let claim = Claim { attempt: 0, ..context.claim("job", 1)? };
    let kind = block_on(context.store().acquire(claim)).map_err(|error| error.kind());
    ensure!(kind == Err(ErrorKind::Request), "attempt 0 was answered {kind:?}");
    Ok(())
}
