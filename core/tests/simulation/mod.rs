//! Keepers, a store and a bad network in simulated time.
//!
//! True time is the store's. Each keeper has a clock of its own, with another origin and another rate. Requests and
//! answers are delayed, dropped, doubled and reordered; keepers are paused, and learn of everything later.

#![allow(clippy::panic, clippy::indexing_slicing)]

mod checks;
mod store;
mod worker;

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use lease_machines::{Command, Event, FencingToken, Keeper, KeeperOptions};
use store::{Request, Store, What};

/// Everything about one run. Equal plans run alike.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) keepers: Vec<KeeperPlan>,
    pub(crate) network: Network,
    /// When everybody is told to stop, and whether the network then swallows everything, or nothing any more.
    pub(crate) end: Duration,
    pub(crate) blackout: bool,
    pub(crate) revokes: Vec<Duration>,
    pub(crate) seed: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct KeeperPlan {
    pub(crate) options: KeeperOptions,
    pub(crate) ttl: Duration,
    pub(crate) retake: bool,
    /// Nanoseconds per millisecond by which its clock is faster than the store's.
    pub(crate) faster: i64,
    pub(crate) origin: Duration,
    pub(crate) starts: Duration,
    pub(crate) work: Duration,
    /// How long the work takes to end after it was told to.
    pub(crate) ending: Duration,
    /// From when, and for how long, the process stands still.
    pub(crate) pauses: Vec<(Duration, Duration)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Network {
    /// In percent of the messages.
    pub(crate) drops: u64,
    pub(crate) doubles: u64,
    /// Requests that were carried out and answered "unknown", or not and answered "not done".
    pub(crate) unknown: u64,
    pub(crate) not_done: u64,
    pub(crate) longest_delay: Duration,
}

/// What came of it, counted.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) counts: BTreeMap<String, u64>,
}

impl Tally {
    fn count(&mut self, what: &str) {
        *self.counts.entry(what.into()).or_default() += 1;
    }
}

enum Happening {
    Arrives(Request),
    Answered { to: usize, event: Event },
    Polled { who: usize, round: u64 },
    Told { who: usize, event: Event },
    WorkEnds { who: usize, hold: u64 },
    Revoked,
}

struct Worker {
    plan: KeeperPlan,
    keeper: Option<Keeper>,
    sent: BTreeMap<u64, Duration>,
    /// Only the last wait counts.
    round: u64,
    holds: u64,
    working_under: Option<FencingToken>,
    worked_under: Vec<FencingToken>,
    /// Requests that supersede earlier grants: reacquires and withdrawals.
    superseding: Vec<u64>,
    /// Grants that arrived and were not worked under, by attempt.
    unused: BTreeMap<u64, FencingToken>,
    given_back: BTreeSet<FencingToken>,
    waits: bool,
}

pub(crate) struct Simulation<'a> {
    plan: Plan,
    now: Duration,
    queue: BTreeMap<(Duration, u64), Happening>,
    sequence: u64,
    random: u64,
    store: Store,
    workers: Vec<Worker>,
    tally: &'a mut Tally,
    /// Says everything that happens; for a plan that failed.
    trace: bool,
}

impl<'a> Simulation<'a> {
    pub(crate) fn run(plan: &Plan, tally: &'a mut Tally, trace: bool) {
        let workers = plan.keepers.iter().cloned().map(Worker::new).collect();
        let mut simulation = Simulation {
            plan: plan.clone(),
            now: Duration::ZERO,
            queue: BTreeMap::new(),
            sequence: 0,
            random: plan.seed,
            store: Store::default(),
            workers,
            tally,
            trace,
        };
        for (who, worker) in plan.keepers.iter().enumerate() {
            simulation.schedule(worker.starts, Happening::Polled { who, round: 0 });
            simulation.schedule(plan.end, Happening::Told { who, event: Event::StopRequested });
        }
        for &at in &plan.revokes {
            simulation.schedule(at, Happening::Revoked);
        }
        simulation.play();
        simulation.check_the_end();
    }

    fn play(&mut self) {
        for _ in 0..100_000 {
            let Some(((at, _), happening)) = self.queue.pop_first() else { return };
            self.now = at;
            match happening {
                Happening::Arrives(request) => self.arrive(request),
                Happening::Answered { to, event } => {
                    if let Some(later) = self.workers[to].paused_until(at) {
                        self.schedule(later, Happening::Answered { to, event });
                    } else {
                        self.answer(to, event);
                    }
                }
                Happening::Polled { who, round } => {
                    if let Some(later) = self.workers[who].paused_until(at) {
                        self.schedule(later, Happening::Polled { who, round });
                    } else if self.workers[who].round == round {
                        self.tell(who, Event::Tick);
                    }
                }
                Happening::Told { who, event } => {
                    if let Some(later) = self.workers[who].paused_until(at) {
                        self.schedule(later, Happening::Told { who, event });
                    } else {
                        self.tell(who, event);
                    }
                }
                Happening::WorkEnds { who, hold } => {
                    if let Some(later) = self.workers[who].paused_until(at) {
                        self.schedule(later, Happening::WorkEnds { who, hold });
                    } else if self.workers[who].holds == hold && self.workers[who].working_under.is_some() {
                        self.workers[who].working_under = None;
                        self.tell(who, Event::WorkFinished);
                    }
                }
                Happening::Revoked => {
                    self.store.revoke(self.now);
                    self.tally.count("revoked");
                }
            }
        }
        panic!("it does not come to rest at {:?}: {:?}", self.now, self.tally.counts);
    }

    fn trace(&self, what: impl FnOnce() -> String) {
        if self.trace {
            println!("{:>15?}  {}", self.now, what());
        }
    }

    fn tell(&mut self, who: usize, event: Event) {
        self.trace(|| format!("{who} is told {event:?}"));
        let now = self.workers[who].clock(self.now);
        let mut keeper = match self.workers[who].keeper.take() {
            Some(keeper) => keeper,
            None => Keeper::new(self.workers[who].plan.options, self.plan.seed ^ who as u64, now),
        };
        keeper.handle(event, now);
        self.poll(who, &mut keeper, now);
        self.check_that_it_acts_under_its_lease(who, &keeper, now);
        self.workers[who].keeper = Some(keeper);
    }

    /// An answer has arrived at the runtime, which hands it to its keeper.
    fn answer(&mut self, to: usize, event: Event) {
        if let Event::Granted { attempt, token, .. } = event {
            let worker = &mut self.workers[to];
            if !worker.worked_under.contains(&token) {
                worker.unused.insert(attempt, token);
            }
        }
        self.tell(to, event);
    }

    /// What a runtime does: carries out what it is told, until it is told to wait.
    fn poll(&mut self, who: usize, keeper: &mut Keeper, now: Duration) {
        self.workers[who].round += 1;
        self.workers[who].waits = false;
        for _ in 0..20 {
            let Some(command) = keeper.poll(now) else { return };
            self.tally.count(&name(&command));
            self.trace(|| format!("{who} says {command:?}"));
            match command {
                Command::Acquire { attempt, ttl, limit } => {
                    self.send(who, attempt, now, limit, What::Acquire { ttl });
                }
                Command::Reacquire { attempt, ttl, limit } => {
                    self.workers[who].superseding.push(attempt);
                    self.send(who, attempt, now, limit, What::Reacquire { ttl });
                }
                Command::Renew { attempt, token, ttl, limit } => {
                    assert_eq!(Some(token), keeper.holder().map(|holder| holder.token()));
                    assert!(
                        keeper.holder().is_some_and(|holder| holder.may_act(now)),
                        "renewed what is over"
                    );
                    self.send(who, attempt, now, limit, What::Renew { token, ttl });
                }
                Command::Release { attempt, token, limit } => {
                    assert_eq!(
                        self.workers[who].working_under, None,
                        "released before the work had finished"
                    );
                    self.send(who, attempt, now, limit, What::Release { token });
                }
                Command::Withdraw { attempt, limit } => {
                    assert_eq!(
                        self.workers[who].working_under, None,
                        "withdrawn before the work had finished"
                    );
                    self.workers[who].superseding.push(attempt);
                    self.send(who, attempt, now, limit, What::Withdraw);
                }
                Command::ReleaseStray { token } => {
                    assert_eq!(self.workers[who].working_under, None, "gave back what it works under");
                    self.workers[who].given_back.insert(token);
                    // Its answer is not waited for; the number matters to nobody.
                    let request = Request { from: who, attempt: 0, sent: now, what: What::Release { token } };
                    self.post(request);
                }
                Command::StartWork { token } => self.start_work(who, token),
                Command::Warn => assert!(self.workers[who].working_under.is_some(), "warned nobody"),
                Command::StopWork { .. } => {
                    let hold = self.workers[who].holds;
                    let at = self.now + self.workers[who].plan.ending;
                    self.schedule(at, Happening::WorkEnds { who, hold });
                }
                Command::WaitUntil(until) | Command::AwaitVacancy { until } => {
                    assert!(until > now, "waiting until {until:?} at {now:?} is no waiting");
                    self.workers[who].waits = matches!(command, Command::AwaitVacancy { .. });
                    // Where it waits for the end of its work, that end is what it waits for.
                    if until != Duration::MAX {
                        let round = self.workers[who].round;
                        let at = self.workers[who].true_time_of(until).max(self.now);
                        self.schedule(at, Happening::Polled { who, round });
                    }
                    return;
                }
            }
        }
        panic!("it never comes to rest");
    }

    fn start_work(&mut self, who: usize, token: FencingToken) {
        let worker = &mut self.workers[who];
        assert_eq!(worker.working_under, None, "started before the last work had finished");
        assert!(worker.plan.retake || worker.holds == 0, "started twice, and nobody asked for a retake");
        assert!(worker.worked_under.last().is_none_or(|last| *last < token), "started under an older token");
        assert!(!worker.given_back.contains(&token), "started under a token that was given back");
        worker.working_under = Some(token);
        worker.worked_under.push(token);
        worker.unused.retain(|_, unused| *unused != token);
        worker.holds += 1;
        let (hold, at) = (worker.holds, self.now + worker.plan.work);
        self.schedule(at, Happening::WorkEnds { who, hold });
    }

    fn send(&mut self, who: usize, attempt: u64, now: Duration, limit: Duration, what: What) {
        assert!(limit > now, "an attempt without any time");
        assert!(self.workers[who].sent.insert(attempt, now).is_none(), "attempt {attempt} was sent twice");
        self.post(Request { from: who, attempt, sent: now, what });
    }

    fn post(&mut self, request: Request) {
        for _ in 0..self.copies() {
            let at = self.now + self.delay();
            self.schedule(at, Happening::Arrives(request));
        }
    }

    /// A request arrives at the store, is decided, and its answer sets out.
    fn arrive(&mut self, request: Request) {
        let attempt = request.attempt;
        let calm = self.now >= self.plan.end;
        let event = if !calm && self.chance(self.plan.network.not_done) {
            Event::NotDone { attempt }
        } else {
            let was_held = self.store.lease().is_some();
            let event = self.store.decide(request, self.now);
            if was_held && self.store.lease().is_none() {
                self.wake_waiters();
            }
            if !calm && self.chance(self.plan.network.unknown) { Event::NoAnswer { attempt } } else { event }
        };
        self.trace(|| format!("the store answers {request:?} with {event:?}; {:?}", self.store.lease()));
        if attempt > 0 {
            for _ in 0..self.copies() {
                let at = self.now + self.delay();
                self.schedule(at, Happening::Answered { to: request.from, event });
            }
        }
    }

    fn wake_waiters(&mut self) {
        for who in 0..self.workers.len() {
            if self.workers[who].waits && self.chance(50) {
                let at = self.now + self.delay();
                self.schedule(at, Happening::Told { who, event: Event::Woken });
            }
        }
    }

    /// How often a message is delivered.
    fn copies(&mut self) -> u64 {
        if self.now >= self.plan.end {
            return u64::from(!self.plan.blackout);
        }
        if self.chance(self.plan.network.drops) {
            0
        } else {
            1 + u64::from(self.chance(self.plan.network.doubles))
        }
    }

    fn delay(&mut self) -> Duration {
        let longest = self.plan.network.longest_delay.as_nanos() as u64;
        // Most messages are quick, some take very long.
        let span = match self.draw() % 8 {
            0 => longest,
            1..=3 => longest / 8,
            _ => longest / 64,
        };
        Duration::from_nanos(self.draw() % (span + 1))
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.draw() % 100 < percent
    }

    /// Xorshift* (Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled", 2016).
    fn draw(&mut self) -> u64 {
        let mut x = self.random | 1;
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.random = x;
        x.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 8
    }

    fn schedule(&mut self, at: Duration, happening: Happening) {
        self.sequence += 1;
        self.queue.insert((at, self.sequence), happening);
    }
}

fn name(command: &Command) -> String {
    let debug = format!("{command:?}");
    match command {
        Command::StopWork { reason } => format!("StopWork {reason:?}"),
        _ => debug.split([' ', '(']).next().unwrap_or_default().to_owned(),
    }
}
