//! Claims of slots, where a server decides and locks them one by one.

use std::future::Future;
use std::time::Duration;

use lease_machines::Rejection;
use tokio::time::sleep;

use crate::owner::random;
use crate::pool::{superseded, too_many};
use crate::{Claimed, PoolClaim, StoreError, Unclaimed};

/// The index or key that two claims of one owner, sent at once, meet in.
pub(crate) const ONE_SLOT_AN_OWNER: &str = "lease_slot_asker";

/// How often a claim is asked again that met a double of itself: the first one that is committed is found by the others.
const DOUBLES: u32 = 3;

/// For how long at most a claim that met only locked slots waits before it is tried once more.
const BUSY: Duration = Duration::from_millis(10);

/// Claims once more where others were deciding on every slot, and again where a double of the same claim was in the way.
pub(crate) async fn claim<F>(
    mut once: impl FnMut() -> F,
    met_its_double: impl Fn(&StoreError) -> bool,
) -> Result<Claimed, StoreError>
where
    F: Future<Output = Result<Claimed, StoreError>>,
{
    let (mut doubles, mut busy) = (0, false);
    loop {
        match once().await {
            Err(error) if doubles < DOUBLES && met_its_double(&error) => doubles += 1,
            Ok(Claimed::Rejected(Unclaimed::Busy)) if !busy => {
                busy = true;
                let share = f64::from((random()? >> 32) as u32) / f64::from(u32::MAX);
                sleep(BUSY.mul_f64(share)).await;
            }
            answer => return answer,
        }
    }
}

/// What a server's code says to a claim that it did not grant; `None` for any other.
pub(crate) fn not_granted(
    code: &str,
    claim: &PoolClaim,
    next_chance: Option<Duration>,
    size: u32,
) -> Option<Result<Claimed, StoreError>> {
    let why = match code {
        "busy" => Unclaimed::Busy,
        "no slot" => Unclaimed::Exhausted { next_chance },
        "no such slot" => Unclaimed::NoSuchSlot,
        "invalid ttl" => Unclaimed::Invalid(Rejection::InvalidTtl),
        "occupied" => Unclaimed::Invalid(Rejection::Occupied),
        "exhausted" => Unclaimed::Invalid(Rejection::TokensExhausted),
        "pool size" => return Some(Err(too_many(claim, size))),
        "withdrawn" => return Some(Err(superseded(claim, "the owner has withdrawn"))),
        "run out" => return Some(Err(superseded(claim, "its lease has run out"))),
        "answered before" => {
            let why = "a later attempt of the owner was answered, or this one was";
            return Some(Err(superseded(claim, why)));
        }
        _ => return None,
    };
    Some(Ok(Claimed::Rejected(why)))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::VecDeque;

    use super::*;
    use crate::ErrorKind;

    fn busy() -> Result<Claimed, StoreError> {
        Ok(Claimed::Rejected(Unclaimed::Busy))
    }

    fn full() -> Result<Claimed, StoreError> {
        Ok(Claimed::Rejected(Unclaimed::Exhausted { next_chance: None }))
    }

    fn double() -> Result<Claimed, StoreError> {
        Err(StoreError::new(ErrorKind::Busy, "its double"))
    }

    /// What a claim is told that is answered like this, and how many answers it left.
    fn asked(
        answers: impl IntoIterator<Item = Result<Claimed, StoreError>>,
    ) -> (Result<Claimed, StoreError>, usize) {
        let answers = RefCell::new(answers.into_iter().collect::<VecDeque<_>>());
        let once = || {
            let answer = answers.borrow_mut().pop_front().unwrap();
            async { answer }
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let told = runtime.block_on(claim(once, |error| error.to_string().contains("its double")));
        let left = answers.borrow().len();
        (told, left)
    }

    #[test]
    fn a_claim_that_met_only_locked_slots_is_tried_once_more() {
        let (told, left) = asked([busy(), full(), full()]);
        assert!(matches!(told, Ok(Claimed::Rejected(Unclaimed::Exhausted { .. }))), "{told:?}");
        assert_eq!(left, 1);
        let (told, left) = asked([busy(), busy(), full()]);
        assert!(matches!(told, Ok(Claimed::Rejected(Unclaimed::Busy))), "{told:?}");
        assert_eq!(left, 1);
    }

    #[test]
    fn a_claim_that_met_its_double_is_asked_again_for_a_while() {
        let (told, left) = asked([double(), double(), double(), full(), full()]);
        assert!(told.is_ok(), "{told:?}");
        assert_eq!(left, 1);
        let (told, left) = asked([double(), double(), double(), double(), full()]);
        assert!(told.is_err(), "{told:?}");
        assert_eq!(left, 1);
    }
}
