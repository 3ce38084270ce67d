//! What a client asks of a store, and how its answer is taken down.

use std::time::Duration;

use lease_machines::{FencingToken, OwnerId};
use lease_machines_store::{
    Acquired, Claim, Ending, Epoch, ErrorKind, LeaseRef, Rejected, Released, Renewed, ResourceName, Revoked,
    Store, StoreError, Undecided, VacatedHow,
};

use crate::history::{Answer, Ask, Holder, How, Vacated};

pub(crate) fn name(resource: &str) -> ResourceName {
    ResourceName::new(resource).unwrap()
}

fn fencing(token: u64) -> FencingToken {
    FencingToken::new(token).unwrap_or(FencingToken::FIRST)
}

pub(crate) fn reference(resource: &str, owner: u64, token: u64, epoch: Option<Epoch>) -> LeaseRef {
    LeaseRef::new(name(resource), OwnerId::new(owner), fencing(token), epoch)
}

/// Asks the store, and takes down its answer.
pub(crate) async fn question(store: &dyn Store, epoch: Option<Epoch>, resource: &str, ask: &Ask) -> Answer {
    match *ask {
        Ask::Acquire { owner, attempt, again, ttl } => {
            let claim = Claim::new(name(resource), OwnerId::new(owner), Duration::from_nanos(ttl))
                .with_attempt(attempt)
                .with_epoch(epoch);
            let answer = if again { store.reacquire(claim).await } else { store.acquire(claim).await };
            heard(answer, |acquired| match acquired {
                Acquired::Granted(grant) => {
                    Answer::Granted { token: grant.token.value(), ttl: nanos(grant.ttl) }
                }
                Acquired::Rejected(why) => rejected(&why),
                other => Answer::Refused(format!("unexpected: {other:?}")),
            })
        }
        Ask::Renew { owner, token, ttl, .. } => {
            let lease = reference(resource, owner, token, epoch);
            heard(store.renew(lease, Duration::from_nanos(ttl)).await, renewed)
        }
        Ask::Release { owner, token } => {
            heard(store.release(reference(resource, owner, token, epoch), Ending::default()).await, released)
        }
        Ask::Withdraw { owner } => heard(store.withdraw(name(resource), OwnerId::new(owner)).await, released),
        Ask::Revoke { expect } => {
            let answer = store.revoke(name(resource), expect.map(fencing), None).await;
            heard(answer, |revoked| match revoked {
                Revoked::Burnt(token) => Answer::Burnt { token: token.value() },
                Revoked::Rejected(why) => rejected(&why),
                other => Answer::Refused(format!("unexpected: {other:?}")),
            })
        }
        Ask::Advance { .. } | Ask::Write { .. } => Answer::Refused("not a question for a store".to_owned()),
    }
}

pub(crate) fn heard<T>(answer: Result<T, StoreError>, decided: impl FnOnce(T) -> Answer) -> Answer {
    match answer {
        Ok(answer) => decided(answer),
        Err(error) => failed(&error),
    }
}

pub(crate) fn failed(error: &StoreError) -> Answer {
    let text = error.to_string();
    match (error.undecided(), error.kind()) {
        (Undecided::NotDone, ErrorKind::Superseded) => Answer::Superseded,
        (Undecided::NotDone, _) => Answer::NotDone(text),
        (Undecided::Unknown, _) => Answer::Unknown(text),
        (Undecided::Refused, kind) => Answer::Refused(format!("{kind:?}: {text}")),
    }
}

pub(crate) fn renewed(answer: Renewed) -> Answer {
    match answer {
        Renewed::Renewed(grant) => Answer::Renewed { ttl: nanos(grant.ttl) },
        Renewed::Rejected(why) => rejected(&why),
        other => Answer::Refused(format!("unexpected: {other:?}")),
    }
}

fn released(answer: Released) -> Answer {
    match answer {
        Released::Released => Answer::Released,
        Released::AlreadyReleased => Answer::AlreadyReleased,
        Released::Rejected(why) => rejected(&why),
        other => Answer::Refused(format!("unexpected: {other:?}")),
    }
}

fn rejected(why: &Rejected) -> Answer {
    Answer::Rejected {
        reason: format!("{:?}", why.reason),
        holder: why.occupant.as_ref().map(|who| Holder {
            owner: who.owner.value(),
            token: who.token.value(),
            held: nanos(who.held_for),
            left: nanos(who.remaining),
        }),
        vacated: why.vacated.as_ref().and_then(|vacated| {
            let how = match vacated.how {
                VacatedHow::Released => How::Released,
                VacatedHow::Revoked => How::Revoked,
                VacatedHow::Withdrawn => How::Withdrawn,
                _ => return None,
            };
            Some(Vacated { token: vacated.token.value(), owner: vacated.owner.value(), how })
        }),
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
