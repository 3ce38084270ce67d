//! How work ended: once-keys, `at_least`, the last good end, the history.

use super::context::{Context, Outcome, grant, name, not_renewed, refused, told};
use super::subject::Need;
use super::{Case, block_on, case};
use crate::{Acquired, Ending, HoldOutcome, Released, Revoked, VacatedHow, WorkResult};

pub(super) const CASES: &[Case] = &[
    case("work done under a once-key is not done again", Need::Endings, once),
    case("only a good end under the lease counts", Need::Endings, only_good),
    case("at_least holds the resource back, from its grant on", Need::Endings, at_least),
    case("what is held back can be revoked", Need::Endings, revoke_held_back),
    case("the last good end is remembered", Need::Endings, last_good),
    case("history tells how each hold ended", Need::History, history),
];

fn once(context: &Context<'_>) -> Outcome<()> {
    let held = grant(context.acquire(context.claim("job", 1)?.with_label("alice").with_once("monday"))?)?;
    let ending = Ending::new(WorkResult::Good).with_once(Some("monday".into()));
    let _ = context.end(&context.lease("job", 1, held)?, ending)?;
    let answer = context.acquire(context.claim("job", 2)?.with_once("monday"))?;
    let end = expect!(answer, Acquired::AlreadyDone(end) => end, "expected that it was done");
    ensure!(
        end.token == held.token && end.owner.value() == 1 && end.label.as_deref() == Some("alice"),
        "done by {end:?}"
    );
    let other = grant(context.acquire(context.claim("job", 3)?.with_once("tuesday"))?)?;
    // Whoever holds it now, monday is done.
    let answer = context.reacquire(context.claim("job", 4)?.with_once("monday"))?;
    ensure!(matches!(answer, Acquired::AlreadyDone(_)), "while it is held: {answer:?}");
    let _ = context.release(&context.lease("job", 3, other)?)?;
    let _ = grant(context.acquire(context.claim("other", 5)?.with_once("monday"))?)?;
    Ok(())
}

fn only_good(context: &Context<'_>) -> Outcome<()> {
    let key = || Some("monday".to_owned());
    for (owner, result) in [(1, WorkResult::Failed), (2, WorkResult::Unknown)] {
        let held = grant(context.acquire(context.claim("job", owner)?.with_once("monday"))?)?;
        let _ = context.end(&context.lease("job", owner, held)?, Ending::new(result).with_once(key()))?;
    }
    // Too late: the lease was over, and another may have done it meanwhile.
    let held = grant(context.acquire(context.claim("job", 3)?.with_once("monday"))?)?;
    context.pass(11);
    let _ = context.end(&context.lease("job", 3, held)?, Ending::new(WorkResult::Good).with_once(key()))?;
    let _ = grant(context.acquire(context.claim("job", 4)?.with_once("monday"))?)?;
    Ok(())
}

fn at_least(context: &Context<'_>) -> Outcome<()> {
    let held = context.granted("job", 1)?;
    let lease = context.lease("job", 1, held)?;
    context.pass(2);
    let ending = Ending::new(WorkResult::Good).with_at_least(context.units(6));
    let left = expect!(context.end(&lease, ending.clone())?, Released::Retained(left) => left, "expected that it is kept");
    ensure!(context.same(left, context.units(4)), "kept for {left:?}, expected 4 units");
    ensure!(context.end(&lease, ending)? == Released::AlreadyReleased, "a repeated release is not known");
    let late = not_renewed(context.renew(&lease)?)?;
    let how = late.vacated.map(|vacated| vacated.how);
    ensure!(how == Some(VacatedHow::Released), "its own renewal was told {how:?}");
    for claim in [context.claim("job", 2)?, context.claim("job", 1)?.with_attempt(2)] {
        let rejected = refused(context.reacquire(claim)?)?;
        ensure!(rejected.occupant.is_some_and(|who| who.retained), "not held back: {:?}", rejected.reason);
    }
    context.pass(5);
    let next = context.granted("job", 3)?;
    ensure!(next.token > held.token, "{next:?} after {held:?}");
    // Long enough already: vacated at once.
    context.pass(3);
    let ending = Ending::new(WorkResult::Good).with_at_least(context.units(2));
    let answer = context.end(&context.lease("job", 3, next)?, ending)?;
    ensure!(answer == Released::Released, "after the time had passed: {answer:?}");
    Ok(())
}

fn revoke_held_back(context: &Context<'_>) -> Outcome<()> {
    let held = context.granted("job", 1)?;
    let lease = context.lease("job", 1, held)?;
    let ending = Ending::new(WorkResult::Good).with_at_least(context.units(9));
    let _ = context.end(&lease, ending)?;
    let answer = block_on(context.store().revoke(name("job")?, None, None)).map_err(told)?;
    ensure!(matches!(answer, Revoked::Burnt(_)), "{answer:?}");
    let _ = context.granted("job", 2)?;
    ensure!(context.release(&lease)? == Released::AlreadyReleased, "the release is forgotten");
    Ok(())
}

fn last_good(context: &Context<'_>) -> Outcome<()> {
    let good = context.granted("job", 1)?;
    let _ = context.end(&context.lease("job", 1, good)?, Ending::new(WorkResult::Good))?;
    let bad = context.granted("job", 2)?;
    let _ = context.end(&context.lease("job", 2, bad)?, Ending::new(WorkResult::Failed))?;
    let seen = block_on(context.store().inspect(name("job")?)).map_err(told)?;
    let found = seen.last_good.map(|end| (end.token, end.owner.value()));
    ensure!(found == Some((good.token, 1)), "the last good end is {found:?}");
    Ok(())
}

fn history(context: &Context<'_>) -> Outcome<()> {
    let released = grant(context.acquire(context.claim("job", 1)?.with_label("alice"))?)?;
    let lease = context.lease("job", 1, released)?;
    let _ = context.renew(&lease)?;
    let _ = context.end(&lease, Ending::new(WorkResult::Failed))?;
    let rotated = context.granted("job", 2)?;
    let _ = grant(context.reacquire(context.claim("job", 2)?.with_attempt(2))?)?;
    context.pass(11);
    let _ = context.granted("job", 3)?;
    let reason = Some("stuck".to_owned());
    let _ = block_on(context.store().revoke(name("job")?, None, reason)).map_err(told)?;
    let _ = context.granted("job", 4)?;
    let _ = context.withdraw("job", 4)?;
    let _ = context.granted("job", 5)?;
    let found = block_on(context.store().history(name("job")?, 100)).map_err(told)?;
    let seen: Vec<_> = found.iter().map(|hold| (hold.owner.value(), hold.outcome)).collect();
    let expected = [
        (5, HoldOutcome::Held),
        (4, HoldOutcome::Withdrawn),
        (3, HoldOutcome::Revoked),
        (2, HoldOutcome::Expired),
        (2, HoldOutcome::Rotated),
        (1, HoldOutcome::Released),
    ];
    ensure!(seen == expected, "found {seen:?}, expected {expected:?}");
    let (Some(last), Some(third)) = (found.last(), found.get(2)) else { return Err("no rows".into()) };
    ensure!(last.token == released.token && last.label.as_deref() == Some("alice"), "{last:?}");
    ensure!(last.renewals == 1 && last.result == WorkResult::Failed, "{last:?}");
    ensure!(third.reason.as_deref() == Some("stuck"), "{third:?}");
    ensure!(found.iter().any(|hold| hold.token == rotated.token), "a rotated grant is missing");
    let tokens_fall =
        found.windows(2).all(|pair| matches!(pair, [newer, older] if newer.token > older.token));
    ensure!(tokens_fall, "not the latest first");
    let two = block_on(context.store().history(name("job")?, 2)).map_err(told)?;
    ensure!(two.len() == 2, "a limit of 2 gave {}", two.len());
    Ok(())
}
