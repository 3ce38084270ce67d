//! A process that makes IDs under a lease on a slot, and writes down each of them.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, sleep};
use std::time::Duration;

use lease_machines_id::{
    AcquireError, Acquired, CallOptions, Counter, Id64, IdError, LeaseHandle, Manager, Options, PoolLease,
    RenewError, Renewed, Sortable, StartError, Strategy,
};
use lease_machines_store::{SlotRef, Store};

use super::{COOL_DOWN, LEASE, SLOTS, pool};
use crate::history::now;
use crate::random::Random;

/// The shortest that a manager takes. Under leases of 30 s it renews after 10 s, and lets IDs be made for 20.
const RENEW: Duration = Duration::from_secs(20);

/// How long it waits for a slot before it looks whether it is to end.
const WAIT: Duration = Duration::from_secs(5);

/// What a process writes down, a line each, in the order in which it happened.
enum Line<'a> {
    /// A slot was granted. No ID was made under it yet.
    Held(&'a SlotRef),
    /// These were asked for at that time, and made since.
    Made(u64, &'a [Id64]),
    /// The first call in a row that made none.
    Off(IdError),
    Failed(StartError),
}

struct Log(Mutex<File>);

impl Log {
    /// In one write, which a SIGKILL does not undo.
    fn write(&self, line: &Line<'_>) {
        let mut text = String::new();
        let _ = match line {
            Line::Held(held) => write!(text, "held {} {}", held.slot, held.token),
            Line::Made(asked, ids) => {
                let _ = write!(text, "made {asked}");
                ids.iter().try_for_each(|id| write!(text, " {:x}", u64::from(*id)))
            }
            Line::Off(IdError::Disabled(why)) => write!(text, "off {why:?}"),
            Line::Off(IdError::Clock(_)) => write!(text, "off Clock"),
            Line::Off(why) => write!(text, "off {why:?}"),
            Line::Failed(why) => write!(text, "failed {why}"),
        };
        text.push('\n');
        if self.0.lock().unwrap().write_all(text.as_bytes()).is_err() {
            // What cannot be collected is not to be made.
            std::process::exit(1);
        }
    }
}

/// The pool's strategy, with a note of what it was granted.
struct Witnessed {
    pool: PoolLease,
    log: Arc<Log>,
}

impl Strategy for Witnessed {
    fn acquire(&self, lease_duration: Duration, options: &CallOptions) -> Result<Acquired, AcquireError> {
        let acquired = self.pool.acquire(lease_duration, options)?;
        if let Some(held) = acquired.lease.get() {
            self.log.write(&Line::Held(held));
        }
        Ok(acquired)
    }

    fn renew(
        &self,
        lease: &LeaseHandle,
        lease_duration: Duration,
        options: &CallOptions,
    ) -> Result<Renewed, RenewError> {
        self.pool.renew(lease, lease_duration, options)
    }

    fn release(&self, lease: &LeaseHandle, options: &CallOptions) {
        self.pool.release(lease, options);
    }

    fn withdraw(&self, options: &CallOptions) {
        self.pool.withdraw(options);
    }

    fn deterministic(&self) -> bool {
        self.pool.deterministic()
    }

    fn cool_down(&self) -> Option<Duration> {
        self.pool.cool_down()
    }
}

/// Makes IDs until standard input ends.
pub(crate) fn make(url: &str, file: &Path, number: u32, seed: u64) -> Result<(), String> {
    let log = File::create(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let log = Arc::new(Log(Mutex::new(log)));
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        told.store(true, Ordering::SeqCst);
    });
    let Some(manager) = start(url, number, &log, &stop) else { return Ok(()) };
    let mut factories =
        Factories { sortable: manager.sortable(), counter: manager.counter(), log, is_on: true };
    let mut random = Random::new(seed, number.into());
    while !stop.load(Ordering::SeqCst) {
        factories.ask(&mut random);
        sleep(Duration::from_millis(10 + random.below(30)));
    }
    manager.stop();
    factories.ask(&mut random);
    Ok(())
}

/// Waits until there is a store and a slot. `None` where it is to end before that, or nothing is to be had.
fn start(url: &str, number: u32, log: &Arc<Log>, stop: &AtomicBool) -> Option<Manager> {
    let mut store: Option<Arc<dyn Store>> = None;
    while !stop.load(Ordering::SeqCst) {
        // A server may be down just now.
        let Some(store) = &store else {
            store = lease_machines_store::open_existing(url).ok();
            sleep(Duration::from_millis(50));
            continue;
        };
        let pool = PoolLease::new(Arc::clone(store), pool(), SLOTS).with_cool_down(COOL_DOWN);
        let name = format!("maker-{number}");
        let pool = match number % 3 {
            0 => pool,
            1 => pool.with_identity(name).with_process_proof(),
            _ => pool.with_exclusive_identity(name),
        };
        let options = Options::new().lease_duration(LEASE).renew_interval(RENEW).acquire_timeout(Some(WAIT));
        match Manager::start(Witnessed { pool, log: Arc::clone(log) }, options) {
            Ok(manager) => return Some(manager),
            Err(StartError::Acquire(error)) if error.is_passing() => {}
            Err(error) => {
                log.write(&Line::Failed(error));
                return None;
            }
        }
    }
    None
}

struct Factories {
    sortable: Sortable<Id64>,
    counter: Counter<Id64>,
    log: Arc<Log>,
    is_on: bool,
}

impl Factories {
    /// Asks one of them for some IDs, at times for as many as make up for what was not used before.
    fn ask(&mut self, random: &mut Random) {
        let count = if random.below(400) == 0 { 1_500 } else { 1 + random.below(12) as usize };
        let asked = now();
        let made =
            if random.percent(50) { self.sortable.next_batch(count) } else { self.counter.next_batch(count) };
        match &made {
            Ok(ids) => self.log.write(&Line::Made(asked, ids)),
            Err(why) if self.is_on => self.log.write(&Line::Off(*why)),
            Err(_) => {}
        }
        self.is_on = made.is_ok();
    }
}
