//! A keeper with somebody beside it who does what a runtime does: remembers when requests were sent, and polls until it
//! is told to wait.
#![allow(dead_code, clippy::panic)] // each test file takes what it needs; a test may panic

use core::time::Duration;
use std::collections::BTreeMap;

use lease_machines::{Command, Event, FencingToken, Keeper, KeeperOptions, Outcome, Rejection};

pub(crate) struct Rig {
    pub(crate) keeper: Keeper,
    pub(crate) now: Duration,
    sent: BTreeMap<u64, Duration>,
    last_attempt: u64,
}

impl Rig {
    /// A keeper that was just made at second 0, and what it says first.
    pub(crate) fn start(options: KeeperOptions) -> (Self, Vec<Command>) {
        Self::start_with(options, 1)
    }

    pub(crate) fn start_with(options: KeeperOptions, seed: u64) -> (Self, Vec<Command>) {
        let keeper = Keeper::new(options, seed, Duration::ZERO);
        let mut rig = Self { keeper, now: Duration::ZERO, sent: BTreeMap::new(), last_attempt: 0 };
        let commands = rig.poll();
        (rig, commands)
    }

    /// A keeper whose work has begun under token 1, granted at second 0 for what it asked for.
    pub(crate) fn working(options: KeeperOptions) -> Self {
        let (mut rig, commands) = Self::start(options);
        let [Command::Acquire { ttl, .. }, Command::WaitUntil(_)] = *commands else { panic!("{commands:?}") };
        let commands = rig.grant(Duration::ZERO, 1, ttl);
        assert!(commands.contains(&Command::StartWork { token: token(1) }), "{commands:?}");
        rig
    }

    /// Lets time pass and polls.
    pub(crate) fn at(&mut self, now: Duration) -> Vec<Command> {
        self.tell(now, Event::Tick)
    }

    pub(crate) fn tell(&mut self, now: Duration, event: Event) -> Vec<Command> {
        assert!(now >= self.now, "time goes forward: {:?} after {:?}", now, self.now);
        self.now = now;
        self.keeper.handle(event, now);
        self.poll()
    }

    /// Goes from wait to wait until `wanted` is said, and gives it back with the instant; nothing answers meanwhile.
    #[track_caller]
    pub(crate) fn until(&mut self, wanted: impl Fn(&Command) -> bool) -> (Duration, Command) {
        for _ in 0..10_000 {
            let Some(wait) = self.next_wait() else { break };
            let commands = self.at(wait);
            if let Some(found) = commands.iter().find(|command| wanted(command)) {
                return (self.now, *found);
            }
        }
        panic!("it was never said; the keeper is {:?}", self.keeper)
    }

    /// When the keeper wants to be polled next, if it wants to.
    pub(crate) fn next_wait(&self) -> Option<Duration> {
        match self.keeper.clone().poll(self.now)? {
            Command::WaitUntil(until) | Command::AwaitVacancy { until } => Some(until),
            other => panic!("it was polled until it had nothing more to do, and now says {other:?}"),
        }
    }

    pub(crate) fn poll(&mut self) -> Vec<Command> {
        let mut commands = Vec::new();
        for _ in 0..20 {
            let Some(command) = self.keeper.poll(self.now) else { return commands };
            commands.push(command);
            match command {
                Command::Acquire { attempt, .. }
                | Command::Reacquire { attempt, .. }
                | Command::Renew { attempt, .. }
                | Command::Release { attempt, .. }
                | Command::Withdraw { attempt, .. } => {
                    assert!(attempt > self.last_attempt, "attempt {attempt} after {}", self.last_attempt);
                    self.last_attempt = attempt;
                    self.sent.insert(attempt, self.now);
                }
                Command::WaitUntil(until) | Command::AwaitVacancy { until } => {
                    assert!(until > self.now, "waiting until {until:?} at {:?} is no waiting", self.now);
                    return commands;
                }
                Command::ReleaseStray { .. }
                | Command::StartWork { .. }
                | Command::Warn
                | Command::StopWork { .. } => {}
            }
        }
        panic!("it never comes to rest: {commands:?}")
    }

    /// The number of the last request.
    pub(crate) fn attempt(&self) -> u64 {
        self.last_attempt
    }

    pub(crate) fn sent(&self, attempt: u64) -> Duration {
        *self.sent.get(&attempt).unwrap_or_else(|| panic!("attempt {attempt} was never sent"))
    }

    /// The last request is granted.
    pub(crate) fn grant(&mut self, now: Duration, n: u64, ttl: Duration) -> Vec<Command> {
        self.grant_of(self.last_attempt, now, n, ttl)
    }

    pub(crate) fn grant_of(&mut self, attempt: u64, now: Duration, n: u64, ttl: Duration) -> Vec<Command> {
        let sent = self.sent(attempt);
        self.tell(now, Event::Granted { attempt, token: token(n), ttl, sent })
    }

    /// The last request, a renewal, is granted.
    pub(crate) fn renew(&mut self, now: Duration, n: u64, ttl: Duration) -> Vec<Command> {
        self.renew_of(self.last_attempt, now, n, ttl)
    }

    pub(crate) fn renew_of(&mut self, attempt: u64, now: Duration, n: u64, ttl: Duration) -> Vec<Command> {
        let sent = self.sent(attempt);
        self.tell(now, Event::Renewed { attempt, token: token(n), ttl, sent })
    }

    /// The last request is rejected.
    pub(crate) fn reject(&mut self, now: Duration, reason: Rejection) -> Vec<Command> {
        self.occupy(now, reason, Duration::ZERO)
    }

    pub(crate) fn occupy(&mut self, now: Duration, reason: Rejection, remaining: Duration) -> Vec<Command> {
        self.tell(now, Event::Rejected { attempt: self.last_attempt, reason, remaining })
    }

    pub(crate) fn outcome(&self) -> Option<Outcome> {
        self.keeper.outcome()
    }

    pub(crate) fn deadline(&self) -> Duration {
        self.keeper.stop_deadline().expect("it holds a lease")
    }
}

fn token(n: u64) -> FencingToken {
    FencingToken::new(n).expect("a token is at least 1")
}
