//! Renewing: one lease, or all of a process in one call.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::time::Duration;

use mysql_async::Value;
use tokio::time::{Instant, sleep};

use super::answer::{Reading, nonsense, one, shown, token};
use super::call::{Call, bits, micros, number, some_bits, span, text};
use super::hub::Hub;
use crate::{Epoch, ErrorKind, Grant, LeaseRef, Renewed, StoreError};

/// What somebody else has locked is asked for again for so long, for all answers of a call come together. A keeper gives a
/// renewal a quarter of the time that is left: of a ttl of 2 s, after a third of it, that is 333 ms. This is well below
/// that, for the rest goes to the requests themselves; and it is far more than another decision holds its row for, which is a
/// commit's wait for the disk.
const PATIENCE: Duration = Duration::from_millis(100);

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(15);

impl Hub {
    pub(super) async fn renew(
        &self,
        until: Instant,
        lease: &LeaseRef,
        ttl: Duration,
    ) -> Result<Renewed, StoreError> {
        let sent = self.target.options.here.now();
        let parameters = || self.renewal(lease, ttl);
        let answer = self.decide_lease(until, Call::Renew, lease, &parameters).await?.renewed()?;
        if let Renewed::Renewed(grant) = &answer {
            self.in_time(sent, grant.ttl)?;
        }
        Ok(answer)
    }

    /// The same, where nobody has it locked: `None` where somebody has.
    async fn renew_now(
        &self,
        until: Instant,
        lease: &LeaseRef,
        ttl: Duration,
    ) -> Result<Option<Renewed>, StoreError> {
        let sent = self.target.options.here.now();
        let parameters = || self.renewal(lease, ttl);
        let told = self.decide_lease(until, Call::RenewNow, lease, &parameters).await?;
        if told.code() == "locked" {
            return Ok(None);
        }
        let answer = told.renewed()?;
        if let Renewed::Renewed(grant) = &answer {
            self.in_time(sent, grant.ttl)?;
        }
        Ok(Some(answer))
    }

    fn renewal(&self, lease: &LeaseRef, ttl: Duration) -> Vec<Value> {
        vec![
            text(lease.resource.as_str()),
            bits(lease.owner.value()),
            number(shown(lease)),
            span(ttl),
            some_bits(lease.epoch.map(Epoch::value)),
            number(self.target.options.keep()),
        ]
    }

    /// What stands is renewed by one call. What is going to be refused is asked for alone: it is not the rule, and its answer
    /// has more to say. What somebody has locked is asked for again for a moment, and then is *not done*.
    pub(super) async fn renew_many(
        &self,
        leases: &[(LeaseRef, Duration)],
    ) -> Result<Vec<Result<Renewed, StoreError>>, StoreError> {
        if leases.is_empty() {
            return Ok(Vec::new());
        }
        let until = self.until();
        let mut asked = Asked { leases, answers: leases.iter().map(|_| None).collect() };
        self.renew_what_stands(until, &mut asked).await?;
        let patient_until = until.min(Instant::now() + PATIENCE);
        while asked.is_open() {
            // From here on each has its own answer.
            if let Err(error) = self.refuse_what_does_not_stand(until, &mut asked).await {
                asked.end(|_| error.clone());
            } else if asked.is_open() && Instant::now() >= patient_until {
                asked.end(|lease| self.locked(lease));
            } else if asked.is_open() {
                sleep(PAUSE).await;
                if let Err(error) = self.renew_what_stands(until, &mut asked).await {
                    asked.end(|_| error.clone());
                }
            }
        }
        Ok(asked.answers.into_iter().flatten().collect())
    }

    /// All at once; what has no answer then is locked, or is not to be renewed.
    async fn renew_what_stands(&self, until: Instant, asked: &mut Asked<'_>) -> Result<(), StoreError> {
        let (sent, open) = (self.target.options.here.now(), asked.open());
        let rows = self.ask(until, Call::RenewMany, vec![text(&asked.as_json(&open))]).await?;
        let place = &self.target.place;
        let row = Reading::new(one(&rows, place)?, place);
        let (epoch, told) = (row.epoch("epoch")?, row.text("renewed")?.unwrap_or_default());
        for entry in told.split_terminator(',') {
            let wrong = || nonsense(place, &format!("a renewal {entry:?}"));
            let (n, left) = entry.split_once(':').ok_or_else(wrong)?;
            let n = n
                .parse::<usize>()
                .ok()
                .and_then(|n| open.get(n.checked_sub(1)?).copied())
                .ok_or_else(wrong)?;
            let left = Duration::from_micros(left.parse().map_err(|_| wrong())?);
            let (Some(slot), Some((lease, _))) = (asked.answers.get_mut(n), asked.leases.get(n)) else {
                return Err(wrong());
            };
            let renewed = token(Some(shown(lease))).map(|token| Grant::new(token, left, epoch));
            *slot = Some(match renewed {
                Some(grant) => self.in_time(sent, left).map(|()| Renewed::Renewed(grant)),
                None => Err(wrong()),
            });
        }
        Ok(())
    }

    /// Of those without an answer: what does not stand by what is committed is asked for alone, and told why.
    async fn refuse_what_does_not_stand(
        &self,
        until: Instant,
        asked: &mut Asked<'_>,
    ) -> Result<(), StoreError> {
        let open = asked.open();
        let rows = self.ask(until, Call::Standing, vec![text(&asked.as_json(&open))]).await;
        let mut locked = HashSet::new();
        for row in rows.map_err(StoreError::nothing_changed)? {
            locked.insert(Reading::new(&row, &self.target.place).some("n")?);
        }
        for (n, place) in (1..).zip(open) {
            let (Some(slot), Some((lease, ttl))) = (asked.answers.get_mut(place), asked.leases.get(place))
            else {
                continue;
            };
            if !locked.contains(&n) {
                *slot = self.renew_now(until, lease, *ttl).await.transpose();
            }
        }
        Ok(())
    }

    fn locked(&self, lease: &LeaseRef) -> StoreError {
        let (place, resource) = (&self.target.place, &lease.resource);
        StoreError::new(
            ErrorKind::Busy,
            format!("{place}: others were in the way of renewing {resource} for {PATIENCE:?}"),
        )
    }
}

/// The leases of one call, and the answers so far.
struct Asked<'a> {
    leases: &'a [(LeaseRef, Duration)],
    answers: Vec<Option<Result<Renewed, StoreError>>>,
}

impl Asked<'_> {
    fn is_open(&self) -> bool {
        self.answers.iter().any(Option::is_none)
    }

    /// The places of those without an answer.
    fn open(&self) -> Vec<usize> {
        (0..).zip(&self.answers).filter(|(_, answer)| answer.is_none()).map(|(place, _)| place).collect()
    }

    /// Nothing more is asked: those without an answer get this error.
    fn end(&mut self, error: impl Fn(&LeaseRef) -> StoreError) {
        for (answer, (lease, _)) in self.answers.iter_mut().zip(self.leases) {
            let _ = answer.get_or_insert_with(|| Err(error(lease)));
        }
    }

    fn as_json(&self, places: &[usize]) -> String {
        as_json(places.iter().filter_map(|place| self.leases.get(*place)))
    }
}

/// The leases as JSON, every value as text, so that no number passes through a float.
fn as_json<'a>(leases: impl Iterator<Item = &'a (LeaseRef, Duration)>) -> String {
    let mut json = String::from("[");
    for (lease, ttl) in leases {
        json.push_str(if json.len() > 1 { ",[\"" } else { "[\"" });
        for byte in lease.resource.as_str().bytes() {
            let _ = write!(json, "{byte:02X}");
        }
        let (owner, token, ttl) = (lease.owner.value() as i64, shown(lease), micros(*ttl));
        let _ = write!(json, "\",\"{owner}\",\"{token}\",\"{ttl}\",");
        match lease.epoch {
            Some(epoch) => drop(write!(json, "\"{}\"]", epoch.value() as i64)),
            None => json.push_str("null]"),
        }
    }
    json.push(']');
    json
}
