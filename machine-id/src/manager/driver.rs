//! The threads that carry out what the machine says.

use std::collections::VecDeque;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use lease_machines::Window;
use lease_machines_os::Generation;

use super::machine::{LEAVING, Machine};
use super::words::{Command, End, Event, Used};
use super::{Notice, Options, Sources, StartError};
use crate::{
    AcquireError, CallOptions, Clock, Counter, Id, Reason, RenewError, Sortable, Strategy, SystemClock,
};
#[cfg(feature = "encrypted")]
use crate::{Encrypt, Encrypted};

/// How long the clock is not looked at: what fell due while the machine slept is seen within this time of its waking.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// A thread that dies again and again is to leave the processor to others.
const AFTER_DEATH: Duration = Duration::from_millis(100);
/// How long an end is waited for: for as long as the machine takes at most, and for as long as its thread does not look at it.
const END: Duration = LEAVING.saturating_add(LOOK_AGAIN);
/// How long the number of those that are left is of interest.
const COUNT_LIMIT: Duration = Duration::from_secs(30);
/// More calls than these are not left hanging.
const MOST_CALLS: usize = 8;

/// Keeps a machine ID, and with it its factories on.
///
/// Factories read for themselves until when they may make IDs. A manager that hangs, that died, or whose process is stopped
/// or forked, makes them stop by doing nothing.
///
/// - **Getters**: [`machine_id`](Self::machine_id); **factories**: [`counter`](Self::counter), [`sortable`](Self::sortable),
///   `encrypted` (feature).
/// - **Signals**: [`report_lost`](Self::report_lost), [`stop`](Self::stop).
///
/// Dropped, it stops as by [`stop`](Self::stop), without waiting for it.
pub struct Manager {
    shared: Arc<Shared>,
}

/// What is called with each notice, on a thread of its own.
type Listener = Box<dyn FnMut(Notice) + Send>;

struct Shared {
    options: Options,
    strategy: Arc<dyn Strategy>,
    sources: Sources<SystemClock>,
    generation: Generation,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    machine: Machine,
    events: VecDeque<Event>,
    /// Calls that have not answered.
    calls: usize,
    /// Of the current term, and what was used of the last.
    window: Option<Window>,
    last_used: Option<Duration>,
    notices: Option<Sender<Notice>>,
    /// It was asked to stop, and has the time until then.
    leave_by: Option<Duration>,
}

impl Manager {
    /// Starts, and waits until a machine ID is held.
    ///
    /// # Errors
    ///
    /// [`StartError`] says why there is none: what was last found while it tried, or at once what no further try would mend. What
    /// may have been granted without an answer has been taken back by then, unless that takes longer than some 5 s.
    pub fn start(strategy: impl Strategy, options: Options) -> Result<Self, StartError> {
        Self::start_with(strategy, options, |_| {})
    }

    /// The same. `listener` is called with what happens, on a thread of its own: however long it takes, and if it panics, it
    /// holds up nothing but further notices.
    ///
    /// # Errors
    ///
    /// As for [`start`](Self::start).
    pub fn start_with(
        strategy: impl Strategy,
        options: Options,
        listener: impl FnMut(Notice) + Send + 'static,
    ) -> Result<Self, StartError> {
        options.check(strategy.cool_down()).map_err(StartError::Options)?;
        let generation = Generation::current();
        let (sender, receiver) = channel();
        let now = lease_machines_os::boot_time();
        let machine =
            Machine::new(options, strategy.deterministic(), RandomState::new().build_hasher().finish(), now);
        let shared = Arc::new(Shared {
            options,
            strategy: Arc::new(strategy),
            sources: Sources::new(&options, &SystemClock, generation),
            generation,
            state: Mutex::new(State {
                machine,
                events: VecDeque::new(),
                calls: 0,
                window: None,
                last_used: None,
                notices: Some(sender),
                leave_by: None,
            }),
            changed: Condvar::new(),
        });
        spawn("lease-id-notices", move || listen(&receiver, Box::new(listener)))?;
        let driver = Arc::clone(&shared);
        spawn("lease-id", move || driver.drive())?;

        let manager = Self { shared };
        manager.wait_for_start()?;
        Ok(manager)
    }

    fn wait_for_start(&self) -> Result<(), StartError> {
        let mut state = self.shared.lock();
        while state.machine.held().is_none() {
            let error = match state.machine.end() {
                Some(End::Failed(error)) => error.clone(),
                Some(End::Stopped) => StartError::Stopped,
                // Held, and lost so soon that nobody saw it: it did start.
                Some(End::Lost(_)) => return Ok(()),
                None => {
                    state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                    continue;
                }
            };
            // Whoever hears of it may end the process, and with it what is being given back.
            self.shared.wait_for_end(state);
            return Err(error);
        }
        Ok(())
    }

    /// The machine ID, as long as it is held.
    #[must_use]
    pub fn machine_id(&self) -> Option<u16> {
        if !self.shared.generation.is_current() {
            return None;
        }
        let held = self.shared.lock().machine.held();
        held.filter(|(_, deadline)| lease_machines_os::boot_time() < *deadline)
            .map(|(machine_id, _)| machine_id)
    }

    /// A factory of IDs that are unique, by counting.
    #[must_use]
    pub fn counter<I: Id>(&self) -> Counter<I> {
        Counter::new(Arc::clone(self.shared.sources.of::<I>()))
    }

    /// A factory of IDs that sort by the time of their making.
    #[must_use]
    pub fn sortable<I: Id>(&self) -> Sortable<I> {
        Sortable::new(Arc::clone(self.shared.sources.of::<I>()))
    }

    /// A factory of IDs that nobody can guess who has not this key.
    #[cfg(feature = "encrypted")]
    #[must_use]
    pub fn encrypted<I: Encrypt>(&self, key: &I::Key) -> Encrypted<I> {
        Encrypted::new(Arc::clone(self.shared.sources.of::<I>()), key)
    }

    /// Somebody outside knows that the machine ID is lost. When this returns, the factories are off. It is released, and another
    /// one asked for unless the strategy has only this one.
    pub fn report_lost(&self) {
        self.turn_off(Reason::Signalled, Event::Signalled);
    }

    /// Turns the factories off, gives the machine ID back together with the time that was not used, and waits for that, though
    /// no longer than some 5 s, whatever the manager's thread does. Whoever calls it while it stops waits as well. In a forked
    /// child it does nothing: what was made before the fork is the parent's.
    pub fn stop(&self) {
        self.turn_off(Reason::Stopped, Event::StopRequested);
        if self.shared.generation.is_current() {
            self.shared.wait_for_end(self.shared.lock());
        }
    }

    /// Not only by the thread that may hang or die: whoever called is to rely on it that the factories are off.
    fn turn_off(&self, reason: Reason, event: Event) {
        if !self.shared.generation.is_current() {
            return;
        }
        let mut state = self.shared.lock();
        if reason == Reason::Stopped {
            state.leave_by.get_or_insert_with(|| lease_machines_os::boot_time().saturating_add(END));
        }
        // Where it has ended they are off, for another reason.
        if state.machine.end().is_none() {
            self.shared.close(&mut state, reason);
            state.events.push_back(event);
        }
        drop(state);
        self.shared.changed.notify_all();
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.turn_off(Reason::Stopped, Event::StopRequested);
    }
}

impl fmt::Debug for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manager").field("machine_id", &self.machine_id()).finish_non_exhaustive()
    }
}

impl Shared {
    /// What a thread died over is not made whole here: the machine is asked to go on from what it knows.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until what may be held has been given back, or the time for that is over.
    fn wait_for_end(&self, mut state: MutexGuard<'_, State>) {
        let until = lease_machines_os::boot_time().saturating_add(END);
        while !state.machine.has_ended() {
            let left = until.saturating_sub(lease_machines_os::boot_time());
            if left.is_zero() {
                return;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The manager's thread. Should it die, it begins again with what is in memory; once it was asked to stop, for no longer
    /// than that is waited for.
    fn drive(self: &Arc<Self>) {
        let dies = |work: &dyn Fn()| catch_unwind(AssertUnwindSafe(work)).is_err();
        while dies(&|| self.run()) {
            thread::sleep(AFTER_DEATH);
            let now = lease_machines_os::boot_time();
            if self.lock().leave_by.is_some_and(|by| now >= by) {
                break;
            }
            dies(&|| self.lock().machine.resume(now));
        }
        self.lock().notices = None;
        self.changed.notify_all();
    }

    fn run(self: &Arc<Self>) {
        let mut state = self.lock();
        loop {
            let now = lease_machines_os::boot_time();
            while let Some(event) = state.events.pop_front() {
                state.machine.handle(event, now);
            }
            match state.machine.poll(now) {
                Some(Command::WaitUntil(until)) => {
                    self.changed.notify_all();
                    let wait = until.saturating_sub(now).min(LOOK_AGAIN);
                    state = self.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
                }
                Some(command) => self.carry_out(command, &mut state, now),
                None if state.calls == 0 && state.events.is_empty() => return,
                // A call that hangs may still be granted something, which is to be given back.
                None => {
                    self.changed.notify_all();
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    fn carry_out(self: &Arc<Self>, command: Command, state: &mut State, now: Duration) {
        match command {
            Command::TurnOn { machine_id, term } => {
                self.sources.start(machine_id, term);
                (state.window, state.last_used) = (term.window, None);
                self.warn(state);
                self.count_others();
            }
            Command::Extend { term } => {
                self.sources.extend(term);
                self.warn(state);
            }
            Command::TurnOff { reason } => self.close(state, reason),
            Command::Tell(notice) => state.tell(notice),
            Command::Acquire { attempt, limit } => {
                let busy = AcquireError::Unreachable("earlier calls still hang".into());
                self.call(state, Event::NotAcquired { attempt, error: busy }, move |shared| {
                    shared.acquire(attempt, limit.saturating_sub(now))
                });
            }
            Command::Renew { attempt, lease, limit } => {
                let busy = RenewError::Retry("earlier calls still hang".into());
                self.call(state, Event::NotRenewed { attempt, error: busy }, move |shared| {
                    let sent = lease_machines_os::boot_time();
                    let options = CallOptions::new(limit.saturating_sub(now));
                    let asked = || shared.strategy.renew(&lease, shared.options.lease_duration, &options);
                    match catch_unwind(AssertUnwindSafe(asked)) {
                        Ok(Ok(renewed)) => Event::Renewed { attempt, renewed, sent },
                        Ok(Err(error)) => Event::NotRenewed { attempt, error },
                        Err(_) => {
                            let error = RenewError::Retry("the strategy panicked".into());
                            Event::NotRenewed { attempt, error }
                        }
                    }
                });
            }
            Command::Release { attempt, lease, used, limit } => {
                let last_used = match used {
                    Used::AsTurnedOff => state.last_used,
                    Used::Nothing(window) => window.map(|window| window.after),
                };
                self.call(state, Event::NotReleased { attempt }, move |shared| {
                    let options = CallOptions { last_used, ..CallOptions::new(limit.saturating_sub(now)) };
                    match catch_unwind(AssertUnwindSafe(|| shared.strategy.release(&lease, &options))) {
                        Ok(()) => Event::Released { attempt },
                        Err(_) => Event::NotReleased { attempt },
                    }
                });
            }
            Command::Withdraw { limit } => {
                self.call(state, Event::Withdrawn, move |shared| {
                    let options = CallOptions::new(limit.saturating_sub(now));
                    let _ = catch_unwind(AssertUnwindSafe(|| shared.strategy.withdraw(&options)));
                    Event::Withdrawn
                });
            }
            Command::WaitUntil(_) => {}
        }
    }

    fn acquire(&self, attempt: u64, limit: Duration) -> Event {
        let (sent, wall_sent) = (lease_machines_os::boot_time(), wall());
        let options = CallOptions::new(limit);
        let asked = || self.strategy.acquire(self.options.lease_duration, &options);
        match catch_unwind(AssertUnwindSafe(asked)) {
            Ok(Ok(grant)) => {
                // The store's clock was read somewhere between these two.
                let skew = grant.store_clock.map_or(Duration::ZERO, |clock| {
                    wall_sent.saturating_sub(clock).max(clock.saturating_sub(wall()))
                });
                Event::Acquired { attempt, grant, sent, skew }
            }
            Ok(Err(error)) => Event::NotAcquired { attempt, error },
            Err(_) => {
                let error = AcquireError::Unreachable("the strategy panicked".into());
                Event::NotAcquired { attempt, error }
            }
        }
    }

    /// Asks the strategy on a thread of its own, which may hang as long as it likes.
    fn call(
        self: &Arc<Self>,
        state: &mut State,
        otherwise: Event,
        ask: impl FnOnce(&Self) -> Event + Send + 'static,
    ) {
        if state.calls >= MOST_CALLS {
            state.events.push_back(otherwise);
            return;
        }
        let shared = Arc::clone(self);
        let spawned = spawn("lease-id-call", move || {
            let event = ask(&shared);
            let mut state = shared.lock();
            state.calls -= 1;
            state.events.push_back(event);
            drop(state);
            shared.changed.notify_all();
        });
        match spawned {
            Ok(()) => state.calls += 1,
            Err(_) => state.events.push_back(otherwise),
        }
    }

    /// Looks how many machine IDs are left, now that there is one less; holding up nothing, and as well as it can.
    fn count_others(self: &Arc<Self>) {
        let shared = Arc::clone(self);
        let _ = spawn("lease-id-left", move || {
            let options = CallOptions::new(COUNT_LIMIT);
            let left = catch_unwind(AssertUnwindSafe(|| shared.strategy.left(&options)));
            if let Some(left) = left.ok().flatten().filter(|left| left.is_short()) {
                shared.lock().tell(Notice::RunsShort { left });
            }
        });
    }

    fn close(&self, state: &mut State, reason: Reason) {
        let used = self.sources.close(reason, state.window);
        // Closed twice, by a signal and then by the machine, the first time counts.
        state.last_used = state.last_used.max(used);
    }

    fn warn(&self, state: &mut State) {
        let now = Duration::from_nanos(SystemClock.wall());
        self.sources.warnings(now).for_each(|notice| state.tell(notice));
    }
}

impl State {
    fn tell(&mut self, notice: Notice) {
        if let Some(notices) = &self.notices {
            // Where nobody listens any more, nobody is told.
            let _ = notices.send(notice);
        }
    }
}

fn listen(notices: &Receiver<Notice>, mut listener: Listener) {
    while let Ok(notice) = notices.recv() {
        // Here, where whoever collects events may take his time.
        #[cfg(feature = "tracing")]
        let _ = catch_unwind(AssertUnwindSafe(|| notice.trace()));
        // A listener that panics hears of the next as well.
        let _ = catch_unwind(AssertUnwindSafe(|| listener(notice)));
    }
}

fn wall() -> Duration {
    Duration::from_nanos(SystemClock.wall())
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), StartError> {
    let spawned = thread::Builder::new().name(name.into()).spawn(work);
    spawned.map(drop).map_err(|error| StartError::NoThread(error.to_string()))
}

#[cfg(test)]
mod tests;
