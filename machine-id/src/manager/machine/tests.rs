//! The machine on a clock that a test moves: its rules one by one, and random schedules.

mod acquiring;
mod ending;
mod holding;
mod schedules;

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

impl Machine {
    /// Breaks a rule for good: from now on it panics, whatever it is asked.
    pub(in crate::manager) fn spoil(&mut self) {
        (self.held_once, self.give_up_at) = (true, Some(Duration::MAX));
    }
}

fn name(command: &Command) -> String {
    match command {
        Command::Acquire { .. } => "acquire",
        Command::Renew { .. } => "renew",
        Command::Release { .. } => "release",
        Command::Withdraw { .. } => "withdraw",
        Command::TurnOn { .. } => "turn on",
        Command::Extend { .. } => "extend",
        Command::TurnOff { .. } => "turn off",
        Command::WaitUntil(_) => "wait",
        Command::Tell(Notice::Acquired { .. }) => "acquired",
        Command::Tell(Notice::NotAcquired { .. }) => "not acquired",
        Command::Tell(Notice::Renewed { .. }) => "renewed",
        Command::Tell(Notice::NotRenewed { .. }) => "not renewed",
        Command::Tell(Notice::Lost { .. }) => "lost",
        Command::Tell(Notice::Released { .. }) => "released",
        Command::Tell(Notice::Conflict { .. }) => "conflict",
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
