//! Inspections and lists decide nothing and tell the truth of one moment.

use super::context::{Context, Outcome, name, told};
use super::subject::Need;
use super::{Case, block_on, case};
use crate::VacatedHow;

pub(super) const CASES: &[Case] = &[
    case("a resource never seen is empty", Need::Nothing, unseen),
    case("inspect follows a lease through its life", Need::Nothing, life),
    case("looking changes nothing", Need::Nothing, changes_nothing),
];

fn unseen(context: &Context<'_>) -> Outcome<()> {
    let seen = block_on(context.store().inspect(name("job")?)).map_err(told)?;
    ensure!(
        seen.last_issued.is_none()
            && seen.occupant.is_none()
            && seen.vacated.is_none()
            && seen.last_good.is_none(),
        "found {seen:?}"
    );
    ensure!(block_on(context.store().list(String::new())).map_err(told)?.is_empty(), "something is listed");
    ensure!(block_on(context.store().history(name("job")?, 9)).map_err(told)?.is_empty(), "it has a history");
    Ok(())
}

fn life(context: &Context<'_>) -> Outcome<()> {
    let look = || block_on(context.store().inspect(name("job")?)).map_err(told);
    let held = context.granted("job", 1)?;
    let seen = look()?;
    ensure!(seen.last_issued == Some(held.token) && seen.occupant.is_some(), "held: {seen:?}");
    context.pass(11);
    let seen = look()?;
    ensure!(seen.occupant.is_none() && seen.vacated.is_none(), "run out: {seen:?}");
    ensure!(seen.last_issued == Some(held.token), "its token is forgotten: {seen:?}");
    let next = context.granted("job", 2)?;
    let _ = context.release(&context.lease("job", 2, next)?)?;
    let seen = look()?;
    let vacated = seen.vacated.map(|last| (last.token, last.owner.value(), last.how));
    ensure!(vacated == Some((next.token, 2, VacatedHow::Released)), "released: {vacated:?}");
    Ok(())
}

fn changes_nothing(context: &Context<'_>) -> Outcome<()> {
    for _ in 0..3 {
        let _ = block_on(context.store().inspect(name("job")?)).map_err(told)?;
        let _ = block_on(context.store().list("job".into())).map_err(told)?;
    }
    ensure!(
        block_on(context.store().list(String::new())).map_err(told)?.is_empty(),
        "looking made a resource"
    );
    let held = context.granted("job", 1)?;
    let before = block_on(context.store().inspect(name("job")?)).map_err(told)?;
    let after = block_on(context.store().inspect(name("job")?)).map_err(told)?;
    ensure!(
        before.last_issued == after.last_issued && after.last_issued == Some(held.token),
        "{before:?}, {after:?}"
    );
    Ok(())
}
