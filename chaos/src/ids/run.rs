//! One run over one engine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use lease_machines_store::{ResourceName, Store, StoreError};
use tokio::runtime::Runtime;

use super::check::{Findings, Holds, check};
use super::crew::{Maker, Scene, end, wait_for_slots};
use super::{LEASE, MAKERS, pool};
use crate::engine::{REMEMBERED, Server};
use crate::history::now;
use crate::random::Random;
use crate::record::Recorder;
use crate::run::patiently;

/// How many processes sleep through the end of their lease at a time, and for how much longer than it can last.
const OVERSLEEPING: usize = 12;
const BEYOND: Duration = Duration::from_secs(3);

/// What is counted, by name.
pub(super) const OVERSLEPT: &str = "process frozen beyond its lease";
pub(super) const KILLED: &str = "process killed";

pub(crate) struct Report {
    pub(super) engine: String,
    pub(super) version: String,
    pub(super) seed: u64,
    pub(super) asked: Duration,
    pub(super) took: Duration,
    pub(super) faults: BTreeMap<String, u64>,
    pub(super) findings: Findings,
    /// Where is what was written down, if it was kept.
    pub(super) kept: Option<PathBuf>,
}

/// Has IDs made for so long, and looks at each.
pub(crate) fn run(engine: &str, seed: u64, length: Duration, folder: &Path) -> Result<Report, String> {
    let runtime = Runtime::new().map_err(|error| error.to_string())?;
    let _inside = runtime.enter();
    let recorder = Recorder::in_memory();
    let target = crate::run::start_engine(&runtime, engine, Random::new(seed, 1), &recorder)?;
    let url = target.plain_url();
    let store = lease_machines_store::open_existing(&url).map_err(|error| error.to_string())?;
    let folder = folder.join(format!("ids-{engine}-{seed}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let scene = Scene { url, seed, folder };
    let begun = Instant::now();
    let mut clock = StoreClock { runtime: &runtime, store: &*store, ahead: i64::MAX };
    let mut makers = (0..MAKERS).map(|number| Maker::start(&scene, number)).collect::<Result<Vec<_>, _>>()?;
    wait_for_slots(&makers)?;
    let faults = Faults {
        server: target.server(),
        makers: &mut makers,
        random: Random::new(seed, 2),
        recorder: &recorder,
        until: Instant::now() + length,
    };
    faults.run(&mut clock)?;
    end(&mut makers)?;
    drop(makers);
    clock.look().map_err(|error| error.to_string())?;
    let holds = runtime.block_on(look_back(&*store))?;
    let findings = check(&scene.folder, &holds, clock.ahead)?;
    let kept = (!findings.violations.is_empty()).then(|| scene.folder.clone());
    if kept.is_none() {
        std::fs::remove_dir_all(&scene.folder).map_err(|error| error.to_string())?;
    }
    let report = Report {
        engine: engine.to_owned(),
        version: target.version(),
        seed,
        asked: length,
        took: begun.elapsed(),
        faults: recorder.counts().faults,
        findings,
        kept,
    };
    drop(store);
    crate::run::end_engine(&runtime, target)?;
    Ok(report)
}

/// How far the store's clock is ahead of [`now`], at least: in microseconds, as was found each time.
struct StoreClock<'a> {
    runtime: &'a Runtime,
    store: &'a dyn Store,
    ahead: i64,
}

impl StoreClock<'_> {
    fn look(&mut self) -> Result<(), StoreError> {
        let seen = self.runtime.block_on(self.store.slots(pool()))?;
        let (wall, now) = (seen.wall.as_micros() as i64, (now() / 1_000) as i64);
        self.ahead = self.ahead.min(wall - now);
        Ok(())
    }
}

/// When each lease on a slot ended, as the store remembers it.
async fn look_back(store: &dyn Store) -> Result<Holds, String> {
    let mut holds = Holds::new();
    for slot in patiently(|| store.slots(pool())).await?.slots {
        let name =
            ResourceName::new(format!("{}#{}", pool(), slot.slot)).map_err(|error| error.to_string())?;
        for entry in patiently(|| store.history(name.clone(), REMEMBERED)).await? {
            let ends = crate::run::micros(entry.ends_at);
            holds.insert((slot.slot, entry.token.value()), (ends, format!("{:?}", entry.outcome)));
        }
    }
    Ok(holds)
}

struct Faults<'a, 'b> {
    server: Option<&'a dyn Server>,
    makers: &'a mut [Maker<'b>],
    random: Random,
    recorder: &'a Recorder,
    until: Instant,
}

#[derive(Clone, Copy)]
enum Fault {
    Kill,
    Leave,
    Freeze,
    Oversleep,
    KillServer,
    FreezeServer,
}

impl Faults<'_, '_> {
    /// One fault after the other, until everything is well again.
    fn run(mut self, clock: &mut StoreClock<'_>) -> Result<(), String> {
        let mut possible =
            vec![Fault::Kill, Fault::Kill, Fault::Leave, Fault::Leave, Fault::Freeze, Fault::Oversleep];
        if self.server.is_some() {
            possible.extend([Fault::KillServer, Fault::FreezeServer]);
        }
        let mut asleep = Vec::new();
        for _ in 0..OVERSLEEPING {
            self.oversleep(&mut asleep);
        }
        while Instant::now() < self.until {
            self.wait(100, 700);
            let now = Instant::now();
            self.makers.iter_mut().try_for_each(|maker| maker.look(now))?;
            asleep.retain(|until| *until > now);
            // A server that was just started may not answer at once.
            let _ = clock.look();
            match (self.random.of(&possible), self.server) {
                (Fault::KillServer, Some(server)) => {
                    self.recorder.fault("server killed");
                    server.kill();
                    self.wait(1, 800);
                    server.restart();
                }
                (Fault::FreezeServer, Some(server)) => {
                    self.recorder.fault("server frozen");
                    server.freeze();
                    self.wait(100, 2_500);
                    server.thaw();
                }
                (Fault::Freeze, _) => {
                    let until = now + Duration::from_millis(100 + self.random.below(3_000));
                    self.one("process frozen", |maker| maker.freeze(until));
                }
                (Fault::Oversleep, _) => self.oversleep(&mut asleep),
                (Fault::Leave, _) => self.one("process ended in good order", |maker| maker.leave()),
                _ => {
                    let mut outcome = Ok(());
                    self.one(KILLED, |maker| outcome = maker.kill());
                    outcome?;
                }
            }
        }
        self.makers.iter_mut().for_each(Maker::thaw);
        // Whoever wakes now and does not look at the time has the time to be caught.
        sleep(BEYOND);
        Ok(())
    }

    /// One sleeps longer than any lease that it can have, if it wakes in time and not too many do.
    fn oversleep(&mut self, asleep: &mut Vec<Instant>) {
        let until = Instant::now() + LEASE + BEYOND;
        if until < self.until && asleep.len() < OVERSLEEPING {
            self.one(OVERSLEPT, |maker| maker.freeze(until));
            asleep.push(until);
        }
    }

    /// Does something to one that runs.
    fn one(&mut self, fault: &str, act: impl FnOnce(&mut Maker<'_>)) {
        let first = self.random.below(self.makers.len() as u64) as usize;
        let (before, from) = self.makers.split_at_mut(first);
        if let Some(maker) = from.iter_mut().chain(before).find(|maker| maker.is_running()) {
            self.recorder.fault(fault);
            act(maker);
        }
    }

    fn wait(&mut self, least: u64, most: u64) {
        sleep(Duration::from_millis(least + self.random.below(most - least)));
    }
}
