//! The machine on a clock that a test moves: its rules one by one, and random schedules of a strategy that answers late, wrongly
//! or not at all.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

const TTL: Duration = Duration::from_secs(8 * 3_600);

/// A machine, its clock, and whatever it said that was not waited for.
struct Stage {
    machine: Machine,
    now: Duration,
}

impl Stage {
    fn new(options: Options, deterministic: bool) -> Self {
        let now = secs(1_000);
        Self { machine: Machine::new(options, deterministic, 1, now), now }
    }

    fn coordinated() -> Self {
        Self::new(Options::new(), false)
    }

    /// Everything there is to do now, without the wait at the end.
    fn commands(&mut self) -> Vec<Command> {
        let mut all = Vec::new();
        loop {
            match self.machine.poll(self.now) {
                None | Some(Command::WaitUntil(_)) => return all,
                Some(command) => all.push(command),
            }
            assert!(all.len() < 100, "it never ends: {all:?}");
        }
    }

    fn names(&mut self) -> Vec<String> {
        self.commands().iter().map(name).collect()
    }

    fn handle(&mut self, event: Event) {
        self.machine.handle(event, self.now);
    }

    fn waits_until(&mut self) -> Option<Duration> {
        match self.machine.poll(self.now) {
            Some(Command::WaitUntil(until)) => Some(until),
            None => None,
            Some(other) => panic!("not a wait: {other:?}"),
        }
    }

    fn attempt(&self) -> u64 {
        self.machine.attempts
    }

    fn grant(&mut self, ttl: Duration) {
        let grant = Acquired::new(7, LeaseHandle::new(self.attempt()), ttl);
        let (attempt, sent) = (self.attempt(), self.now);
        self.handle(Event::Acquired { attempt, grant, sent, skew: Duration::ZERO });
    }

    /// Holds a lease that was granted at once.
    fn held(mut self, ttl: Duration) -> Self {
        assert_eq!(self.names(), ["acquire"]);
        self.grant(ttl);
        assert_eq!(self.names(), ["turn on", "acquired"]);
        self
    }

    fn renew(&mut self, ttl: Duration) {
        let renewed = Renewed::new(LeaseHandle::new(self.attempt()), ttl);
        let (attempt, sent) = (self.attempt(), self.now);
        self.handle(Event::Renewed { attempt, renewed, sent });
    }

    fn not_renewed(&mut self, error: RenewError) {
        let attempt = self.attempt();
        self.handle(Event::NotRenewed { attempt, error });
    }
}

fn name(command: &Command) -> String {
    match command {
        Command::Acquire { .. } => "acquire",
        Command::Renew { .. } => "renew",
        Command::Release { .. } => "release",
        Command::TurnOn { .. } => "turn on",
        Command::Extend { .. } => "extend",
        Command::TurnOff { .. } => "turn off",
        Command::WaitUntil(_) => "wait",
        Command::Tell(Notice::Acquired { .. }) => "acquired",
        Command::Tell(Notice::NotAcquired { .. }) => "not acquired",
        Command::Tell(Notice::Renewed { .. }) => "renewed",
        Command::Tell(Notice::NotRenewed { .. }) => "not renewed",
        Command::Tell(Notice::Lost { .. }) => "lost",
        Command::Tell(_) => "another notice",
    }
    .into()
}

fn lost(why: &str) -> RenewError {
    RenewError::Lost(why.into())
}

fn unclear() -> RenewError {
    RenewError::Retry("a time-out".into())
}

#[test]
fn renewals_come_at_the_interval_less_ten_seconds_and_never_under_five() {
    for (interval, ttl, expected) in [
        (1_800, 28_800, 1_790),
        (1_800, 1_800, 1_780),
        (1_800, 60, 40),
        (20, 28_800, 10),
        (1_800, 30, 10),
        (20, 31, 10),
    ] {
        let options = Options::new().renew_interval(secs(interval));
        let mut stage = Stage::new(options, false).held(secs(ttl));
        let begun = stage.now;
        assert_eq!(stage.waits_until(), Some(begun + secs(expected)), "{interval} {ttl}");
        assert_eq!(stage.machine.held(), Some((7, begun + secs(ttl - 10))));
        stage.now = begun + secs(expected);
        assert_eq!(stage.names(), ["renew"]);
    }
}

#[test]
fn the_deadline_counts_from_before_the_request_was_sent() {
    let mut stage = Stage::coordinated();
    assert_eq!(stage.names(), ["acquire"]);
    let sent = stage.now;
    stage.now += secs(25);
    let grant = Acquired::new(7, LeaseHandle::none(), secs(60));
    stage.handle(Event::Acquired { attempt: 1, grant, sent, skew: Duration::ZERO });
    assert_eq!(stage.machine.held(), Some((7, sent + secs(50))));
    stage.commands();
    // It is renewed at sent + 40; the answer takes a second.
    stage.now = sent + secs(40);
    assert_eq!(stage.names(), ["renew"]);
    let renewal = stage.now;
    stage.now += secs(1);
    let renewed = Renewed::new(LeaseHandle::none(), secs(60));
    stage.handle(Event::Renewed { attempt: 2, renewed, sent: renewal });
    assert_eq!(stage.machine.held(), Some((7, renewal + secs(50))));
}

#[test]
fn a_grant_that_comes_when_its_time_is_over_is_given_back() {
    let mut stage = Stage::new(Options::new().acquire_timeout(None), false);
    stage.commands();
    let sent = stage.now;
    stage.now += secs(20);
    let grant = Acquired::new(7, LeaseHandle::none(), secs(30));
    stage.handle(Event::Acquired { attempt: 1, grant, sent, skew: Duration::ZERO });
    assert_eq!(stage.machine.held(), None);
    assert_eq!(stage.names(), ["not acquired", "release"]);
}

#[test]
fn a_grant_under_thirty_seconds_is_given_back_and_the_next_try_backs_off() {
    let mut stage = Stage::coordinated();
    stage.commands();
    stage.grant(secs(30) - Duration::from_nanos(1));
    assert_eq!(stage.names(), ["not acquired", "release"]);
    let attempt = stage.attempt();
    stage.handle(Event::Released { attempt });
    let until = stage.waits_until().expect("it backs off");
    assert!(until > stage.now);
    stage.now = until;
    assert_eq!(stage.names(), ["acquire"]);
    stage.grant(secs(29));
    stage.now += secs(60);
    stage.commands();
    assert_eq!(stage.machine.end(), Some(&End::Failed(StartError::IllegalTtl(secs(29)))), "the real reason");
}

#[test]
fn a_renewal_under_thirty_seconds_is_a_loss() {
    let mut stage = Stage::coordinated().held(TTL);
    stage.now += secs(1_790);
    stage.commands();
    stage.renew(secs(29));
    let commands = stage.commands();
    assert_eq!(commands.iter().map(name).collect::<Vec<_>>(), ["turn off", "lost", "release"]);
    assert!(matches!(commands[0], Command::TurnOff { reason: Reason::IllegalTtl }));
    assert!(
        matches!(&commands[2], Command::Release { lease, .. } if lease.get() == Some(&2_u64)),
        "what was granted"
    );
    let attempt = stage.attempt();
    stage.handle(Event::Released { attempt });
    assert!(stage.waits_until().expect("it backs off") > stage.now);
}

#[test]
fn doubt_keeps_the_factories_on_until_the_deadline() {
    let mut stage = Stage::coordinated().held(secs(60));
    let begun = stage.now;
    let mut tries = 0;
    loop {
        stage.now = stage.waits_until().expect("it goes on");
        let commands = stage.names();
        if commands.contains(&"turn off".to_owned()) {
            assert_eq!(commands[..2], ["turn off", "lost"]);
            break;
        }
        if commands.contains(&"renew".to_owned()) {
            tries += 1;
            stage.not_renewed(unclear());
            assert_eq!(stage.names(), ["not renewed"]);
        }
        assert!(stage.now < begun + secs(50));
    }
    assert_eq!(stage.now, begun + secs(50), "ttl less 10 s");
    assert!((4..40).contains(&tries), "{tries} tries in 10 s");
}

/// A manager that cannot expire while a call hangs went on making IDs past its lease.
#[test]
fn a_hung_renewal_delays_neither_the_next_try_nor_the_loss() {
    let mut stage = Stage::coordinated().held(secs(60));
    let begun = stage.now;
    stage.now += secs(40);
    assert_eq!(stage.names(), ["renew"]);
    // A quarter of what is left, then it is asked again.
    assert_eq!(stage.waits_until(), Some(begun + secs(40) + Duration::from_millis(2_500)));
    stage.now = begun + secs(40) + Duration::from_millis(2_500);
    assert_eq!(stage.names(), ["not renewed"]);
    stage.now = begun + secs(44);
    assert_eq!(stage.names(), ["renew"]);
    // The first answers after all: it is the older attempt, and the newer one is not answered yet.
    let renewed = Renewed::new(LeaseHandle::none(), secs(60));
    stage.handle(Event::Renewed { attempt: 2, renewed, sent: begun + secs(40) });
    assert_eq!(stage.names(), ["extend", "renewed"]);
    assert_eq!(stage.machine.held(), Some((7, begun + secs(90))));
}

#[test]
fn an_answer_that_comes_after_the_deadline_revives_nothing() {
    let mut stage = Stage::coordinated().held(secs(60));
    stage.now += secs(40);
    assert_eq!(stage.names(), ["renew"]);
    let sent = stage.now;
    stage.now += secs(10);
    let renewed = Renewed::new(LeaseHandle::none(), secs(60));
    stage.handle(Event::Renewed { attempt: 2, renewed, sent });
    assert_eq!(stage.names(), ["turn off", "lost", "release"]);
}

#[test]
fn a_loss_turns_off_first_then_tells_then_releases_and_then_asks_again() {
    let mut stage = Stage::coordinated().held(TTL);
    stage.now += secs(1_790);
    stage.commands();
    stage.not_renewed(lost("another has it"));
    let commands = stage.commands();
    assert_eq!(commands.iter().map(name).collect::<Vec<_>>(), ["turn off", "lost", "release"]);
    assert!(matches!(&commands[1], Command::Tell(Notice::Lost { why, .. }) if why == "another has it"));
    assert!(matches!(commands[2], Command::Release { used: Used::AsTurnedOff, .. }));
    let attempt = stage.attempt();
    stage.handle(Event::Released { attempt });
    assert_eq!(stage.names(), ["acquire"]);
    stage.grant(TTL);
    assert_eq!(stage.names(), ["turn on", "acquired"]);
}

#[test]
fn a_release_that_hangs_holds_up_the_next_acquire_for_five_seconds() {
    let mut stage = Stage::coordinated().held(TTL);
    stage.handle(Event::Signalled);
    assert_eq!(stage.names(), ["turn off", "lost", "release"]);
    assert_eq!(stage.waits_until(), Some(stage.now + secs(5)));
    stage.now += secs(5);
    assert_eq!(stage.names(), ["acquire"]);
}

#[test]
fn a_deterministic_strategy_is_not_asked_again() {
    let mut stage = Stage::new(Options::new(), true).held(TTL);
    stage.handle(Event::Signalled);
    assert_eq!(stage.names(), ["turn off", "lost", "release"]);
    assert_eq!(stage.machine.end(), Some(&End::Lost(Reason::Signalled)));
    stage.handle(Event::Released { attempt: 2 });
    assert_eq!(stage.waits_until(), None);
    assert!(stage.machine.has_ended());
}

#[test]
fn a_start_fails_with_the_real_reason() {
    let passing = [AcquireError::Exhausted("512 of 512".into()), AcquireError::Unreachable("refused".into())];
    for error in passing {
        let mut stage = Stage::coordinated();
        let begun = stage.now;
        while stage.machine.end().is_none() {
            if stage.names().contains(&"acquire".to_owned()) {
                let attempt = stage.attempt();
                stage.handle(Event::NotAcquired { attempt, error: error.clone() });
            } else if let Some(until) = stage.waits_until() {
                stage.now = until;
            }
        }
        assert_eq!(stage.now, begun + secs(60));
        assert_eq!(stage.machine.end(), Some(&End::Failed(StartError::Acquire(error))));
    }
    for error in [AcquireError::Refused("rights".into()), AcquireError::Misconfigured("a name".into())] {
        let mut stage = Stage::coordinated();
        stage.commands();
        stage.handle(Event::NotAcquired { attempt: 1, error: error.clone() });
        assert_eq!(stage.machine.end(), Some(&End::Failed(StartError::Acquire(error))), "at once");
    }
}

#[test]
fn a_start_that_hears_nothing_says_so_and_gives_back_what_comes_late() {
    let mut stage = Stage::coordinated();
    stage.commands();
    let sent = stage.now;
    stage.now += secs(60);
    stage.commands();
    let end = stage.machine.end().cloned();
    assert!(matches!(end, Some(End::Failed(StartError::Acquire(AcquireError::Unreachable(_))))), "{end:?}");
    stage.now += secs(20);
    let grant = Acquired::new(7, LeaseHandle::none(), TTL);
    stage.handle(Event::Acquired { attempt: 1, grant, sent, skew: Duration::ZERO });
    assert_eq!(stage.names(), ["release"]);
}

#[test]
fn a_machine_whose_clock_is_too_far_from_the_stores_does_not_start() {
    for (skew, starts) in [(secs(10), true), (secs(10) + Duration::from_nanos(1), false)] {
        let mut stage = Stage::coordinated();
        stage.commands();
        let grant = Acquired::new(7, LeaseHandle::none(), TTL);
        let sent = stage.now;
        stage.handle(Event::Acquired { attempt: 1, grant, sent, skew });
        assert_eq!(stage.machine.held().is_some(), starts);
        let failed = End::Failed(StartError::ClockSkew { found: skew, most: secs(10) });
        assert_eq!(stage.machine.end(), (!starts).then_some(&failed));
        assert_eq!(stage.names().contains(&"release".to_owned()), !starts);
    }
}

#[test]
fn once_it_has_started_it_goes_on_asking_whatever_the_reason() {
    let mut stage = Stage::coordinated().held(TTL);
    stage.handle(Event::Signalled);
    stage.commands();
    stage.handle(Event::Released { attempt: 2 });
    let mut longest = Duration::ZERO;
    for _ in 0..30 {
        assert!(stage.names().contains(&"acquire".to_owned()));
        let attempt = stage.attempt();
        stage.handle(Event::NotAcquired { attempt, error: AcquireError::Refused("rights".into()) });
        stage.commands();
        let until = stage.waits_until().expect("it goes on");
        longest = longest.max(until - stage.now);
        stage.now = until;
    }
    assert!((secs(15)..=secs(30)).contains(&longest), "{longest:?}");
}

#[test]
fn a_stop_turns_off_releases_and_then_has_ended() {
    let mut stage = Stage::coordinated().held(TTL);
    stage.handle(Event::StopRequested);
    assert_eq!(stage.names(), ["turn off", "release"], "nothing is lost");
    assert!(!stage.machine.has_ended());
    stage.handle(Event::Released { attempt: 2 });
    assert_eq!(stage.waits_until(), None);
    assert_eq!((stage.machine.has_ended(), stage.machine.end()), (true, Some(&End::Stopped)));
}

#[test]
fn a_stop_while_it_asks_gives_back_what_it_gets() {
    let mut stage = Stage::coordinated();
    stage.commands();
    stage.handle(Event::StopRequested);
    assert_eq!(stage.names(), ["turn off"]);
    stage.grant(TTL);
    assert_eq!(stage.names(), ["release"]);
    stage.handle(Event::Released { attempt: 2 });
    stage.commands();
    assert!(stage.machine.has_ended());
}

#[test]
fn a_stop_waits_no_longer_than_five_seconds() {
    let mut stage = Stage::coordinated().held(TTL);
    stage.handle(Event::StopRequested);
    stage.commands();
    stage.now += secs(5);
    stage.commands();
    assert!(stage.machine.has_ended());
}

/// A manager is dead while its factories are on.
#[test]
fn a_manager_that_died_goes_on_with_one_renewal_before_anything_else() {
    let mut stage = Stage::coordinated().held(TTL);
    stage.now += secs(100);
    stage.machine.resume(stage.now);
    assert_eq!(stage.names(), ["renew"]);
    stage.renew(TTL);
    assert_eq!(stage.names(), ["extend", "renewed"], "and goes on");
    // Dead for longer than it held: nothing is to be renewed.
    stage.now += TTL;
    stage.machine.resume(stage.now);
    assert_eq!(stage.names(), ["turn off", "lost", "release"]);
}

/// How a call is answered, and after how long; `None` for never.
#[derive(Clone, Debug)]
enum Answer {
    Good { ttl: u64 },
    Unclear,
    Lost,
    Silent,
}

#[derive(Clone, Debug)]
struct Step {
    answer: Answer,
    takes: u64,
    /// Something else that happens then: 0 a signal, 1 the thread dies, 2 the process is frozen for an hour.
    besides: Option<u8>,
}

fn schedules() -> impl Strategy<Value = Vec<Step>> {
    let answer = prop_oneof![
        6 => (30..200_u64).prop_map(|ttl| Answer::Good { ttl }),
        1 => (0..30_u64).prop_map(|ttl| Answer::Good { ttl }),
        2 => Just(Answer::Unclear),
        1 => Just(Answer::Lost),
        1 => Just(Answer::Silent),
    ];
    let takes = prop_oneof![6 => 0..3_u64, 2 => 3..90_u64];
    let step = (answer, takes, proptest::option::weighted(0.1, 0..3_u8));
    proptest::collection::vec(
        step.prop_map(|(answer, takes, besides)| Step { answer, takes, besides }),
        1..60,
    )
}

/// What the store knows of leases, and what the factories were told.
#[derive(Default)]
struct World {
    /// Of each lease that was granted and not released: until when.
    held: BTreeMap<u64, Duration>,
    /// The factories: until when they are on, and under which lease.
    on: Option<(Duration, u64)>,
    /// Told as acquired and not as lost.
    told: bool,
    seen: BTreeSet<String>,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn on_every_schedule_factories_are_on_inside_a_lease_alone(steps in schedules(), deterministic in any::<bool>()) {
        play(&steps, deterministic);
    }
}

fn play(steps: &[Step], deterministic: bool) {
    let options = Options::new().lease_duration(secs(120)).renew_interval(secs(60)).acquire_timeout(None);
    let mut stage = Stage::new(options, deterministic);
    let mut world = World::default();
    let mut answers: Vec<(Duration, Event)> = Vec::new();
    let mut steps = steps.iter();
    let mut stopped = false;
    for _ in 0..5_000 {
        match stage.machine.poll(stage.now) {
            // As the driver does: what comes late may have to be given back.
            None if answers.is_empty() => break,
            None => {
                answers.sort_by_key(|(at, _)| *at);
                let (at, event) = answers.remove(0);
                stage.now = stage.now.max(at);
                stage.handle(event);
            }
            Some(Command::WaitUntil(until)) => {
                answers.sort_by_key(|(at, _)| *at);
                let next = answers.first().map(|(at, _)| *at);
                assert!(until > stage.now || next.is_some_and(|at| at <= stage.now), "it spins");
                match next {
                    Some(at) if at <= until => {
                        stage.now = stage.now.max(at);
                        let (_, event) = answers.remove(0);
                        stage.handle(event);
                    }
                    // Nothing comes any more, and nothing is waited for.
                    None if until == Duration::MAX => break,
                    _ => stage.now = until,
                }
            }
            Some(command) => {
                world.seen.insert(name(&command));
                world.carry_out(command, &mut stage, &mut steps, &mut answers, deterministic);
            }
        }
        // The factories are off by themselves from their deadline on; until then the lease stands.
        if let Some((until, lease)) = world.on.filter(|(until, _)| stage.now < *until) {
            let stands = world.held.get(&lease).is_some_and(|end| until + MARGIN <= *end);
            assert!(stands, "on until {until:?} under lease {lease}, of {:?}", world.held);
        }
        if steps.len() == 0 && !stopped {
            stopped = true;
            stage.handle(Event::StopRequested);
        }
    }
    assert!(stage.machine.end().is_some(), "it was stopped, or had ended");
    assert!(world.on.is_none(), "an end turns them off");
    // Nothing that was granted is left behind: it is released, or was granted by a call that is still in flight.
    let now = stage.now;
    let left: Vec<_> = world.held.iter().filter(|(_, until)| **until > now).collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

impl World {
    fn carry_out<'a>(
        &mut self,
        command: Command,
        stage: &mut Stage,
        steps: &mut impl Iterator<Item = &'a Step>,
        answers: &mut Vec<(Duration, Event)>,
        deterministic: bool,
    ) {
        let now = stage.now;
        let mut next = || {
            let plain = Step { answer: Answer::Good { ttl: 120 }, takes: 0, besides: None };
            let step = steps.next().cloned().unwrap_or(plain);
            (step.answer, now + secs(step.takes), step.besides)
        };
        match command {
            Command::Acquire { attempt, .. } => {
                assert!(self.on.is_none(), "acquired beside what is on");
                assert!(
                    !deterministic || !self.seen.contains("lost"),
                    "asked again for the only ID there is"
                );
                let (answer, at, besides) = next();
                match answer {
                    Answer::Good { ttl } => {
                        // The store decides at some time before the answer.
                        self.held.insert(attempt, now + secs(ttl));
                        let grant = Acquired::new(7, LeaseHandle::new(attempt), secs(ttl));
                        answers
                            .push((at, Event::Acquired { attempt, grant, sent: now, skew: Duration::ZERO }));
                    }
                    Answer::Silent => {}
                    _ => {
                        let error = AcquireError::Exhausted("all".into());
                        answers.push((at, Event::NotAcquired { attempt, error }));
                    }
                }
                self.besides(besides, stage);
            }
            Command::Renew { attempt, lease, .. } => {
                let number = *lease.get::<u64>().expect("its own");
                let (answer, at, besides) = next();
                match answer {
                    Answer::Good { ttl } => {
                        if let Some(until) = self.held.get_mut(&number) {
                            *until = (*until).max(now + secs(ttl));
                            let renewed = Renewed::new(lease, secs(ttl));
                            answers.push((at, Event::Renewed { attempt, renewed, sent: now }));
                        } else {
                            let error = RenewError::Lost("gone".into());
                            answers.push((at, Event::NotRenewed { attempt, error }));
                        }
                    }
                    Answer::Unclear => answers.push((at, Event::NotRenewed { attempt, error: unclear() })),
                    Answer::Lost => {
                        answers.push((at, Event::NotRenewed { attempt, error: lost("rejected") }))
                    }
                    Answer::Silent => {}
                }
                self.besides(besides, stage);
            }
            Command::Release { attempt, lease, .. } => {
                let number = *lease.get::<u64>().expect("its own");
                assert!(self.on.is_none_or(|(_, on)| on != number), "released while it is on");
                self.held.remove(&number);
                answers.push((now, Event::Released { attempt }));
            }
            Command::TurnOn { term, .. } => {
                assert!(self.on.is_none() && !self.told, "turned on twice");
                let lease = stage.machine_lease();
                self.on = Some((term.deadline, lease));
            }
            Command::Extend { term } => {
                let (_, lease) = self.on.expect("extended while off");
                self.on = Some((term.deadline, lease));
            }
            Command::TurnOff { .. } => self.on = None,
            Command::Tell(Notice::Acquired { .. }) => self.told = true,
            Command::Tell(Notice::Lost { .. }) => {
                assert!(self.on.is_none(), "told before it was turned off");
                assert!(self.told, "lost, and never acquired");
                self.told = false;
            }
            Command::Tell(_) | Command::WaitUntil(_) => {}
        }
    }

    fn besides(&mut self, besides: Option<u8>, stage: &mut Stage) {
        match besides {
            Some(0) => stage.handle(Event::Signalled),
            Some(1) => stage.machine.resume(stage.now),
            Some(_) => stage.now += secs(3_600),
            None => {}
        }
    }
}

impl Stage {
    fn machine_lease(&self) -> u64 {
        match &self.machine.phase {
            Phase::Held(hold) => *hold.lease.get().expect("its own"),
            other => panic!("turned on in {other:?}"),
        }
    }
}
