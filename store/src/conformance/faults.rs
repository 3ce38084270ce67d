//! Requests that are lost, doubled and late.

use std::sync::Arc;

use lease_machines::OwnerId;

use super::context::{Context, Outcome, grant, name, told};
use super::subject::Need;
use super::{Case, block_on, case};
use crate::{Acquired, Ending, ErrorKind, Fault, FaultStore, Released, Store, Undecided};

pub(super) const CASES: &[Case] = &[
    case("a lost answer to an acquire: the retry has it at once", Need::Nothing, lost_acquire),
    case("a lost request for a release: the retry releases", Need::Nothing, lost_release),
    case("a doubled acquire is one grant", Need::Nothing, doubled),
    case("a request that comes after its owner withdrew comes to nothing", Need::Nothing, ghost),
    case("a release that comes late frees nobody else's lease", Need::Nothing, late_release),
];

fn unknown<T>(answer: Result<T, crate::StoreError>) -> Outcome<()> {
    match answer {
        Err(error) if error.undecided() == Undecided::Unknown => Ok(()),
        Err(error) => Err(told(error)),
        Ok(_) => Err("the wrapper let an answer through".into()),
    }
}

fn lost_acquire(context: &Context<'_>) -> Outcome<()> {
    let network = FaultStore::scripted(context.store(), [Fault::DropReply]);
    unknown(block_on(network.acquire(context.claim("job", 1)?)))?;
    let answer = block_on(network.reacquire(context.claim("job", 1)?.with_attempt(2))).map_err(told)?;
    let _ = grant(answer)?;
    Ok(())
}

fn lost_release(context: &Context<'_>) -> Outcome<()> {
    for (owner, fault) in [(1, Fault::DropRequest), (2, Fault::DropReply)] {
        let network = FaultStore::scripted(context.store(), [fault]);
        let held = context.granted("job", owner)?;
        let lease = context.lease("job", owner, held)?;
        unknown(block_on(network.release(lease.clone(), Ending::default())))?;
        let again = block_on(network.release(lease, Ending::default())).map_err(told)?;
        let expected =
            if fault == Fault::DropRequest { Released::Released } else { Released::AlreadyReleased };
        ensure!(again == expected, "after {fault:?} the retry was answered {again:?}, expected {expected:?}");
    }
    Ok(())
}

fn doubled(context: &Context<'_>) -> Outcome<()> {
    let network = FaultStore::scripted(context.store(), [Fault::Double, Fault::Double]);
    let first = grant(block_on(network.acquire(context.claim("job", 1)?)).map_err(told)?)?;
    let again = grant(block_on(network.reacquire(context.claim("job", 1)?.with_attempt(2))).map_err(told)?)?;
    ensure!(again.token > first.token, "{again:?} after {first:?}");
    let renewed = context.renew(&context.lease("job", 1, again)?)?;
    ensure!(matches!(renewed, crate::Renewed::Renewed(_)), "the doubled request took it away: {renewed:?}");
    Ok(())
}

fn ghost(context: &Context<'_>) -> Outcome<()> {
    let network = FaultStore::scripted(context.store(), [Fault::Late]);
    unknown(block_on(network.acquire(context.claim("job", 1)?)))?;
    let _ = block_on(context.store().withdraw(name("job")?, OwnerId::new(1))).map_err(told)?;
    ensure!(block_on(network.deliver_late()) == 1, "nothing was late");
    let kind = block_on(context.store().acquire(context.claim("job", 1)?)).map_err(|error| error.kind());
    ensure!(kind == Err(ErrorKind::Superseded), "the ghost: {kind:?}");
    let _ = context.granted("job", 2)?;
    Ok(())
}

fn late_release(context: &Context<'_>) -> Outcome<()> {
    let network = FaultStore::scripted(Arc::clone(&context.store()), [Fault::Late, Fault::Late]);
    let first = context.granted("job", 1)?;
    let lease = context.lease("job", 1, first)?;
    unknown(block_on(network.release(lease.clone(), Ending::default())))?;
    unknown(block_on(network.renew(lease, context.units(10))))?;
    context.pass(11);
    let second = context.granted("job", 2)?;
    let _ = block_on(network.deliver_late());
    match context.acquire(context.claim("job", 3)?)? {
        Acquired::Rejected(why) if why.occupant.as_ref().map(|who| who.token) == Some(second.token) => Ok(()),
        other => Err(format!("a late release or renewal of another changed it: {other:?}")),
    }
}
