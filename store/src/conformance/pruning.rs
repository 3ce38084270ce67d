//! Forgetting resources never lowers a token.

use super::context::{Context, Outcome, name, not_renewed, told};
use super::subject::Need;
use super::{Case, block_on, case};
use crate::{Ending, Renewed, WorkResult};

pub(super) const CASES: &[Case] = &[
    case("names used again after a prune get greater tokens", Need::Prune, floor),
    case("what is held, or was lately, is not pruned", Need::Prune, kept),
    case("the last good end survives a prune", Need::Prune, good_end),
];

fn floor(context: &Context<'_>) -> Outcome<()> {
    let mut greatest = 0;
    let mut gone = Vec::new();
    for owner in 1..=30 {
        let resource = format!("job-{}", owner % 10);
        let held = context.granted(&resource, owner)?;
        greatest = greatest.max(held.token.value());
        let lease = context.lease(&resource, owner, held)?;
        let _ = context.release(&lease)?;
        gone.push((lease, held.epoch));
    }
    context.pass(5);
    let pruned = block_on(context.store().prune(context.units(1))).map_err(told)?;
    ensure!(pruned.resources == 10, "{} resources forgotten, expected 10", pruned.resources);
    ensure!(pruned.floor >= greatest, "the floor is {}, tokens went to {greatest}", pruned.floor);
    ensure!(block_on(context.store().list(String::new())).map_err(told)?.is_empty(), "they are still there");
    // A token that is forgotten is no sign of a lost history.
    for (lease, epoch) in &gone {
        let _ = not_renewed(context.renew(lease)?)?;
        let now = block_on(context.store().epoch()).map_err(told)?;
        ensure!(now == *epoch, "the token of a pruned lease has opened epoch {now}");
    }
    for index in 0..10 {
        let token = context.granted(&format!("job-{index}"), 99)?.token.value();
        ensure!(token > greatest, "token {token} after {greatest}");
    }
    Ok(())
}

fn kept(context: &Context<'_>) -> Outcome<()> {
    let long = crate::Claim { ttl: context.units(50), ..context.claim("held", 1)? };
    let held = super::context::grant(context.acquire(long)?)?;
    let old = context.granted("old", 1)?;
    let _ = context.release(&context.lease("old", 1, old)?)?;
    context.pass(20);
    let late = context.granted("late", 1)?;
    let _ = context.release(&context.lease("late", 1, late)?)?;
    let pruned = block_on(context.store().prune(context.units(10))).map_err(told)?;
    ensure!(pruned.resources == 1, "{pruned:?}");
    let left = block_on(context.store().list(String::new())).map_err(told)?;
    let left: Vec<&str> = left.iter().map(|seen| seen.resource.as_str()).collect();
    ensure!(left == ["held", "late"], "left are {left:?}");
    let renewal = context.renew(&context.lease("held", 1, held)?)?;
    ensure!(matches!(renewal, Renewed::Renewed(_)), "a held lease was pruned: {renewal:?}");
    Ok(())
}

fn good_end(context: &Context<'_>) -> Outcome<()> {
    let held = context.granted("job", 1)?;
    let _ = context.end(&context.lease("job", 1, held)?, Ending::new(WorkResult::Good))?;
    context.pass(5);
    let _ = block_on(context.store().prune(context.units(1))).map_err(told)?;
    let seen = block_on(context.store().inspect(name("job")?)).map_err(told)?;
    ensure!(seen.last_good.map(|end| end.token) == Some(held.token), "the last good end is forgotten");
    Ok(())
}
