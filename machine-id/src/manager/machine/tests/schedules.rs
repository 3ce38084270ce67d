//! Random schedules of a strategy that answers late, wrongly or not at all, and of whatever else happens.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

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
            Command::Withdraw { .. } => answers.push((now, Event::Withdrawn)),
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
