//! The whole of it, on stores and writers that are wrong on purpose: what the checker has to notice.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use lease_machines::{FencingToken, OwnerId, Rejection};
use lease_machines_store::{
    Acquired, Answer as Heard, Capabilities, Claim, Ending, Epoch, ErrorKind, FaultStore, Grant,
    HistoryEntry, Inspection, LeaseRef, Odds, Opening, Pruned, Rejected, Released, Renewed, ResourceName,
    Revoked, Store, StoreError,
};
use tokio::task::JoinSet;

use crate::check::{Kind, Violation, check};
use crate::client::Client;
use crate::engine::{self, Engine, Job, Later, Writer};
use crate::history::{Answer, History, Line, now};
use crate::random::Random;
use crate::record::Recorder;
use crate::run::look_back;
use crate::second;

/// What is wrong with a store, now and then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wrong {
    /// Grants without looking, in another store.
    Elsewhere,
    /// Grants, and says that it was not done.
    GrantDenied,
    /// Says that it released, and did not.
    ReleaseForgotten,
    /// Says that it renewed, and did not.
    RenewalForgotten,
    /// Renews, and says that it was not done.
    RenewalDenied,
    /// Says that a lease has run out that has not.
    Expired,
    /// Answers what it answered before.
    Cached,
    /// Lets an owner that has withdrawn have it.
    WithdrawalForgotten,
    /// Grants what was done.
    OnceForgotten,
    /// Vacates what was to be held back.
    HoldForgotten,
    /// Grants whatever epoch is asked for.
    EpochForgotten,
    /// Counts tokens from below again, once it was pruned.
    FloorForgotten,
    /// Answers late.
    Slow,
    Refuses,
}

struct Mutant {
    right: Arc<dyn Store>,
    other: Arc<dyn Store>,
    wrong: Wrong,
    calls: AtomicU64,
    last: std::sync::Mutex<std::collections::HashMap<ResourceName, Rejected>>,
}

impl Mutant {
    /// Whether this call is one that it gets wrong.
    fn errs(&self, wrong: Wrong) -> bool {
        let always = matches!(wrong, Wrong::RenewalForgotten | Wrong::RenewalDenied | Wrong::Expired);
        self.wrong == wrong && (always || self.calls.fetch_add(1, Ordering::SeqCst) % 7 == 6)
    }

    async fn claim(&self, claim: Claim, again: bool) -> Result<Acquired, StoreError> {
        if self.errs(Wrong::Slow) {
            tokio::time::sleep(Duration::from_millis(600)).await;
        }
        if self.errs(Wrong::Refuses) {
            return Err(StoreError::new(ErrorKind::Permission, "refused on purpose"));
        }
        let mut claim = claim;
        if self.wrong == Wrong::OnceForgotten {
            claim.once = None;
        }
        if self.wrong == Wrong::EpochForgotten {
            claim.epoch = None;
        }
        let resource = claim.resource.clone();
        if self.errs(Wrong::Cached) {
            if let Some(why) = self.last.lock().unwrap().get(&resource) {
                return Ok(Acquired::Rejected(why.clone()));
            }
        }
        let store = if self.errs(Wrong::Elsewhere) { &self.other } else { &self.right };
        let claim = if Arc::ptr_eq(store, &self.other) { claim.with_epoch(None) } else { claim };
        let answer = if again { store.reacquire(claim).await } else { store.acquire(claim).await }?;
        if let (Wrong::FloorForgotten, Acquired::Granted(grant)) = (self.wrong, &answer) {
            let lower = grant.token.value() - (self.calls.load(Ordering::SeqCst) << 20);
            let token = FencingToken::new(lower).unwrap();
            return Ok(Acquired::Granted(Grant::new(token, grant.ttl, grant.epoch)));
        }
        if let Acquired::Rejected(why) = &answer {
            self.last.lock().unwrap().insert(resource, why.clone());
        } else if self.errs(Wrong::GrantDenied) {
            return Err(StoreError::new(ErrorKind::Busy, "it was done all the same"));
        }
        Ok(answer)
    }

    async fn renewal(&self, lease: LeaseRef, ttl: Duration) -> Result<Renewed, StoreError> {
        if self.errs(Wrong::RenewalForgotten) {
            if let Some(epoch) = lease.epoch {
                return Ok(Renewed::Renewed(Grant::new(lease.token, ttl, epoch)));
            }
        }
        if self.errs(Wrong::Expired) {
            return Ok(Renewed::Rejected(Rejected::new(Rejection::Expired)));
        }
        let answer = self.right.renew(lease, ttl).await?;
        if self.errs(Wrong::RenewalDenied) && matches!(answer, Renewed::Renewed(_)) {
            return Err(StoreError::new(ErrorKind::Busy, "it was done all the same"));
        }
        Ok(answer)
    }
}

impl Store for Mutant {
    fn capabilities(&self) -> &Capabilities {
        self.right.capabilities()
    }

    fn epoch(&self) -> Heard<'_, Epoch> {
        self.right.epoch()
    }

    fn acquire(&self, claim: Claim) -> Heard<'_, Acquired> {
        Box::pin(self.claim(claim, false))
    }

    fn reacquire(&self, claim: Claim) -> Heard<'_, Acquired> {
        Box::pin(self.claim(claim, true))
    }

    fn renew(&self, lease: LeaseRef, ttl: Duration) -> Heard<'_, Renewed> {
        Box::pin(self.renewal(lease, ttl))
    }

    fn renew_many(&self, leases: Vec<(LeaseRef, Duration)>) -> Heard<'_, Vec<Result<Renewed, StoreError>>> {
        self.right.renew_many(leases)
    }

    fn release(&self, lease: LeaseRef, ending: Ending) -> Heard<'_, Released> {
        if self.errs(Wrong::ReleaseForgotten) {
            return Box::pin(async { Ok(Released::Released) });
        }
        let ending =
            if self.wrong == Wrong::HoldForgotten { ending.with_at_least(Duration::ZERO) } else { ending };
        self.right.release(lease, ending)
    }

    fn withdraw(&self, resource: ResourceName, owner: OwnerId) -> Heard<'_, Released> {
        if self.wrong == Wrong::WithdrawalForgotten {
            return Box::pin(async { Ok(Released::Rejected(Rejected::new(Rejection::Vacant))) });
        }
        self.right.withdraw(resource, owner)
    }

    fn revoke(
        &self,
        resource: ResourceName,
        expect: Option<FencingToken>,
        reason: Option<String>,
    ) -> Heard<'_, Revoked> {
        self.right.revoke(resource, expect, reason)
    }

    fn inspect(&self, resource: ResourceName) -> Heard<'_, Inspection> {
        self.right.inspect(resource)
    }

    fn list(&self, prefix: String) -> Heard<'_, Vec<Inspection>> {
        self.right.list(prefix)
    }

    fn history(&self, resource: ResourceName, limit: usize) -> Heard<'_, Vec<HistoryEntry>> {
        self.right.history(resource, limit)
    }

    fn prune(&self, older_than: Duration) -> Heard<'_, Pruned> {
        if self.wrong == Wrong::FloorForgotten {
            self.calls.fetch_add(1, Ordering::SeqCst);
        }
        self.right.prune(older_than)
    }

    fn wait(&self, resource: ResourceName, limit: Duration) -> Heard<'_, ()> {
        self.right.wait(resource, limit)
    }

    fn open_epoch(&self, opening: Opening) -> Heard<'_, Epoch> {
        self.right.open_epoch(opening)
    }
}

/// A writer that does without its guard now and then: it says that the write was in order, or that it was not done.
struct Unguarded {
    right: Box<dyn Writer>,
    place: String,
    says: Answer,
    writes: u64,
}

impl Writer for Unguarded {
    fn ways(&self) -> &'static [(&'static str, bool)] {
        self.right.ways()
    }

    fn write<'a>(&'a mut self, job: &'a Job) -> Later<'a, (Option<u64>, Answer)> {
        self.writes += 1;
        if self.writes % 3 > 0 {
            return self.right.write(job);
        }
        let connection = rusqlite::Connection::open(&self.place).unwrap();
        connection.busy_timeout(Duration::from_secs(5)).unwrap();
        let values = (job.lease.resource.as_str(), job.lease.token.value() as i64, job.id as i64);
        let text =
            "INSERT INTO journal SELECT ?1, coalesce(max(n), 0) + 1, ?2, ?3 FROM journal WHERE resource = ?1";
        connection.execute(text, values).unwrap();
        let answer = (Some(now()), self.says.clone());
        Box::pin(async move { answer })
    }

    fn advance<'a>(
        &'a mut self,
        key: &'a lease_machines_store::MarkKey,
        lease: &'a LeaseRef,
    ) -> Later<'a, Answer> {
        self.right.advance(key, lease)
    }
}

/// So many calls are a round.
const CALLS: u64 = 2_500;
/// And so many rounds may go by until a violation has shown.
const ROUNDS: u64 = 12;

fn limits() -> Line {
    Line::Limits {
        engine: "sqlite".into(),
        seed: 1,
        timeout: 400_000_000,
        bound: 100_000_000,
        dense: true,
        takes_back: true,
        remembers_times: false,
        ends_by_leases: false,
    }
}

/// Lets ten clients play a round on a store, and checks what they saw.
fn found(
    round: u64,
    store: impl FnOnce(Arc<dyn Store>) -> Arc<dyn Store>,
    writer: impl Fn(Box<dyn Writer>, String) -> Box<dyn Writer>,
) -> Vec<Violation> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let recorder = Recorder::in_memory();
    let target: Box<dyn Engine> = engine::start("sqlite", Random::new(1, 1), &recorder).unwrap();
    let right = lease_machines_store::open_existing(&target.plain_url()).unwrap();
    let store = store(right);
    let stop = Arc::new(AtomicBool::new(false));
    recorder.line(limits());
    runtime.block_on(async {
        let mut tasks = JoinSet::new();
        for number in 0..10 {
            let client = Client {
                number,
                random: Random::new(number.into(), round),
                store: Arc::clone(&store),
                writers: [(); 2].map(|()| writer(engine::writer("sqlite", &target.place()), target.place())),
                recorder: recorder.clone(),
                began: now(),
                stop: Arc::clone(&stop),
                epoch: None,
                written: 0,
                former: Vec::new(),
            };
            tasks.spawn(client.run());
        }
        play(tasks, &recorder, &stop, CALLS).await;
        let mut lines = recorder.take();
        let names: BTreeSet<String> = lines
            .iter()
            .filter_map(|line| if let Line::Call(call) = line { Some(call.resource.clone()) } else { None })
            .collect();
        lines.extend(look_back(&*target, names).await.unwrap());
        lines.extend(target.written().await.unwrap().into_iter().map(Line::Written));
        check(&History { lines })
    })
}

/// As long as so many calls take, on a machine that is busy with other things.
async fn play(mut tasks: JoinSet<()>, recorder: &Recorder, stop: &AtomicBool, calls: u64) {
    while recorder.counts().calls.values().flat_map(|of| of.values()).sum::<u64>() < calls {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    stop.store(true, Ordering::SeqCst);
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
}

/// The same on a second store, with the clients that it has.
fn found_in_second(round: u64, store: impl FnOnce(Arc<dyn Store>) -> Arc<dyn Store>) -> Vec<Violation> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let recorder = Recorder::in_memory();
    let store = store(lease_machines_store::open("sqlite::memory:?max_ttl=1s").unwrap());
    let stop = Arc::new(AtomicBool::new(false));
    recorder.line(limits());
    runtime.block_on(async {
        let mut tasks = JoinSet::new();
        second::start(&mut tasks, &store, round, &recorder, &stop);
        play(tasks, &recorder, &stop, 1_500).await;
    });
    check(&History { lines: recorder.take() })
}

/// Whether these kinds of violation show.
#[track_caller]
fn show(wanted: &[Kind], what: &str, play: impl Fn(u64) -> Vec<Violation>) {
    let mut missing: Vec<Kind> = wanted.to_vec();
    for round in 0..ROUNDS {
        let found = play(round);
        missing.retain(|kind| found.iter().all(|violation| violation.kind != *kind));
        if missing.is_empty() {
            return;
        }
    }
    panic!("{what}: {missing:?} did not show in {ROUNDS} rounds");
}

/// Whether these kinds of violation are found in a store that is wrong in this way.
#[track_caller]
fn is_noticed(wrong: Wrong, wanted: &[Kind]) {
    show(wanted, &format!("{wrong:?}"), |round| {
        let mutant = |right| -> Arc<dyn Store> {
            let other = lease_machines_store::open("sqlite::memory:").unwrap();
            Arc::new(Mutant { right, other, wrong, calls: 0.into(), last: Default::default() })
        };
        found(round, mutant, |writer, _| writer)
    });
}

/// Slowness is the machine's here, and so no violation.
fn but_slow(mut found: Vec<Violation>) -> Vec<Violation> {
    found.retain(|violation| violation.kind != Kind::TooLong);
    found
}

#[test]
fn a_right_store_on_a_right_network_and_on_a_bad_one() {
    assert_eq!(but_slow(found(0, |right| right, |writer, _| writer)), []);
    // Without doubles: whoever does not know that one came twice cannot know what came of it.
    let mut odds = Odds::each(5);
    odds.double = 0;
    let bad = |right| Arc::new(FaultStore::seeded(right, 5, odds)) as Arc<dyn Store>;
    assert_eq!(but_slow(found(0, bad, |writer, _| writer)), []);
}

#[test]
fn a_right_second_store() {
    assert_eq!(but_slow(found_in_second(0, |right| right)), []);
}

#[test]
fn what_a_second_store_forgets() {
    let wrongs = [
        (Wrong::OnceForgotten, Kind::DoneTwice),
        (Wrong::HoldForgotten, Kind::NotAsCore),
        (Wrong::EpochForgotten, Kind::EpochForgotten),
        (Wrong::FloorForgotten, Kind::OutOfOrder),
        (Wrong::Elsewhere, Kind::TwoLive),
        (Wrong::Expired, Kind::FalselyLost),
        (Wrong::Refuses, Kind::Refused),
    ];
    for (wrong, kind) in wrongs {
        let mutant = |right| -> Arc<dyn Store> {
            let other = lease_machines_store::open("sqlite::memory:").unwrap();
            Arc::new(Mutant { right, other, wrong, calls: 0.into(), last: Default::default() })
        };
        show(&[kind], &format!("{wrong:?}"), |round| found_in_second(round, mutant));
    }
}

#[test]
fn grants_of_two_stores_under_one_name() {
    is_noticed(Wrong::Elsewhere, &[Kind::Lost]);
}

#[test]
fn effects_of_what_was_not_done() {
    is_noticed(Wrong::GrantDenied, &[Kind::Phantom]);
    is_noticed(Wrong::RenewalDenied, &[Kind::Phantom]);
}

#[test]
fn what_was_acknowledged_and_is_gone() {
    is_noticed(Wrong::ReleaseForgotten, &[Kind::Lost]);
    is_noticed(Wrong::RenewalForgotten, &[Kind::TwoLive, Kind::FalselyLost]);
    is_noticed(Wrong::WithdrawalForgotten, &[Kind::NotAsCore]);
}

#[test]
fn leases_that_are_over_too_soon() {
    is_noticed(Wrong::Expired, &[Kind::FalselyLost]);
}

#[test]
fn answers_that_are_out_of_date() {
    is_noticed(Wrong::Cached, &[Kind::Clock, Kind::OutOfOrder]);
}

#[test]
fn answers_that_come_late_or_say_no() {
    is_noticed(Wrong::Slow, &[Kind::TooLong]);
    is_noticed(Wrong::Refuses, &[Kind::Refused]);
}

#[test]
fn writes_past_the_guard() {
    let unguarded = |says: Answer| {
        move |round| {
            let says = says.clone();
            found(
                round,
                |right| right,
                move |right, place| Box::new(Unguarded { right, place, says: says.clone(), writes: 0 }),
            )
        }
    };
    let wanted = [Kind::FenceOrder, Kind::FenceLate];
    show(&wanted, "unguarded writes", unguarded(Answer::Passed));
    show(&[Kind::Phantom], "unguarded writes", unguarded(Answer::NotDone("it was done all the same".into())));
}
