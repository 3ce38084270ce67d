//! What is asked of a store while its server runs out of room, and what must have come of it when there is some again.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use lease_machines::FencingToken;
use lease_machines_store::conformance::block_on;
use lease_machines_store::{
    Acquired, Answer, Claim, Ending, Epoch, ErrorKind, LeaseRef, Released, Renewed, Store, StoreError,
    Undecided, open,
};

use crate::help::{claim_for, granted, lease};

/// In the URLs here, and in no message.
pub const PASSWORD: &str = "s3cret";

/// The option for [`LIMIT`].
pub const TIMEOUT: &str = "timeout=2s";

/// How long a request takes at most.
const LIMIT: Duration = Duration::from_secs(2);

/// What a loaded machine may add.
const SLACK: Duration = Duration::from_secs(8);

/// How long a server may take to go on: MySQL and MariaDB look once a minute whether there is room.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// Longer than that.
const TTL: Duration = Duration::from_secs(600);

/// More than there is room for.
const MOST: u64 = 100_000;

pub struct Story {
    store: Arc<dyn Store>,
    /// The server, as its URL has it.
    place: String,
    epoch: Epoch,
    held: LeaseRef,
    /// The token of a hold of "again" that has ended.
    former: FencingToken,
    granted: Vec<LeaseRef>,
    refused: Vec<(Claim, Undecided)>,
}

impl Story {
    /// Two holds in a store that is set up, one of which ends.
    pub fn begin(url: &str) -> Self {
        let store = open(url).unwrap();
        let take = |resource: &str| {
            let grant = granted(&*store, claim_for(resource, 1, TTL));
            lease(resource, 1, grant)
        };
        let (held, ended) = (take("held"), take("again"));
        let former = ended.token;
        assert_eq!(block_on(store.release(ended, Ending::default())).unwrap(), Released::Released);
        let place = url.rsplit(['@', '/']).find(|part| part.starts_with("127.0.0.1:")).unwrap().to_owned();
        let epoch = block_on(store.epoch()).unwrap();
        Self { store, place, epoch, held, former, granted: Vec::new(), refused: Vec::new() }
    }

    pub fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// Asks for a resource that nobody has had.
    pub fn ask(&mut self) -> Result<(), StoreError> {
        let number = 2 + (self.granted.len() + self.refused.len()) as u64;
        let resource = format!("job-{number}");
        let claim = claim_for(&resource, number, TTL);
        match self.in_time(self.store.acquire(claim.clone())) {
            Ok(Acquired::Granted(grant)) => self.granted.push(lease(&resource, number, grant)),
            Ok(other) => panic!("{resource}: {other:?}"),
            Err(error) => {
                self.refused.push((claim, error.undecided()));
                return Err(error);
            }
        }
        Ok(())
    }

    /// Asks until something is not granted.
    pub fn until_refused(&mut self) -> StoreError {
        let error = (0..MOST).find_map(|_| self.ask().err());
        error.unwrap_or_else(|| panic!("{} resources were granted: it never was full", self.granted.len()))
    }

    pub fn renew(&self) -> Result<(), StoreError> {
        let answer = self.in_time(self.store.renew(self.held.clone(), TTL))?;
        assert!(matches!(answer, Renewed::Renewed(_)), "{answer:?}");
        Ok(())
    }

    /// An answer, which comes in time. An error leaves open what may be asked again, and says where it was.
    pub fn in_time<T>(&self, answer: Answer<'_, T>) -> Result<T, StoreError> {
        let begun = Instant::now();
        let answer = block_on(answer);
        assert!(begun.elapsed() < LIMIT + SLACK, "it took {:?}", begun.elapsed());
        if let Err(error) = &answer {
            let told = format!("{error} {error:?}");
            assert!(told.contains(&self.place) && !told.contains(PASSWORD), "{told}");
            assert_ne!(error.undecided(), Undecided::Refused, "{told}");
        }
        answer
    }

    /// There is room again: the store goes on, and whatever it said was true.
    pub fn end(self) {
        let store = &*self.store;
        let renewed = again(|| store.renew(self.held.clone(), TTL));
        assert!(matches!(renewed, Renewed::Renewed(_)), "{renewed:?}");
        assert_eq!(again(|| store.epoch()), self.epoch);
        for lease in self.granted {
            let answer = again(|| store.release(lease.clone(), Ending::default()));
            assert!(
                matches!(answer, Released::Released | Released::AlreadyReleased),
                "{lease:?}: {answer:?}"
            );
        }
        for (claim, undecided) in self.refused {
            let occupant = again(|| store.inspect(claim.resource.clone())).occupant;
            let of_unknown = undecided == Undecided::Unknown;
            assert!(
                occupant.as_ref().is_none_or(|found| of_unknown && found.owner == claim.owner),
                "{undecided:?}: {occupant:?}"
            );
        }
        let next = again(|| store.acquire(claim_for("again", 2, TTL)));
        assert!(matches!(&next, Acquired::Granted(grant) if grant.token > self.former), "{next:?}");
    }
}

/// Asks until there is an answer, as a holder does.
fn again<'a, T>(ask: impl Fn() -> Answer<'a, T>) -> T {
    let begun = Instant::now();
    loop {
        match block_on(ask()) {
            Ok(answer) => return answer,
            Err(error) => {
                assert_ne!(error.undecided(), Undecided::Refused, "{error:?}");
                assert!(begun.elapsed() < PATIENCE, "{error:?}");
                thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// What an error is, and what it says is to be done.
#[track_caller]
pub fn says(error: &StoreError, kind: ErrorKind, undecided: Undecided, mend: &str) {
    assert_eq!((error.kind(), error.undecided()), (kind, undecided), "{error:?}");
    assert!(error.to_string().contains(mend), "{error}");
}
