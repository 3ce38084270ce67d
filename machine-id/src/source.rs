//! Where stamps come from: one stream of them for each layout, without a lock, off by itself in time.
//!
//! # How it works
//!
//! A *stamp* is a tick and a counter in it, as one number: `tick << counter_bits | counter`, with as many of the counter's
//! bits as leave the topmost bit free. `next` is the first stamp that was not taken yet. Who wants stamps reads the clock once,
//! moves `next` on, with one atomic operation, and then looks whether it may have what it took:
//!
//! 1. the clock that counts sleep, against the deadline: the lease is not over;
//! 2. the generation: this process is not a fork;
//! 3. the limit: the stamps lie in the reserved window;
//! 4. the version: nobody has turned the source off, or started it afresh, since before it looked.
//!
//! All of it is data. Nothing has to happen for a source to be off: time passes, or a fork empties a page.
//!
//! Stamps that were taken and not given are lost, and put off whoever comes next. So there is another look before, whether
//! they could be given at all: a call that fails leaves `next` where it was. But for one that counts, wants one stamp, and is
//! overtaken by others between the look and the taking: it may have lost that one.
//!
//! # Invariants
//!
//! - **No stamp is given twice.** Within a term `next` only rises, and each taking is one atomic step. A new term begins at or
//!   above what the last one had reached ([`floor`](Control)), and above what its window says others may have used.
//! - **No stamp goes with another term's machine ID.** It is read after the version, and before it is compared.
//! - **What [`Source::close`] says was the last is the last.** It takes `next` away with one swap. Whoever took stamps
//!   before it is counted. Whoever takes later has synchronized with the swap, and sees the version that was changed before it:
//!   it gets nothing. So there is no call in flight to be waited for: one that has passed its last look before the swap is as
//!   good as one that has returned.

mod counting;

use std::time::Duration;

use lease_machines::Window;
use lease_machines_os::Generation;

use crate::sync::{AtomicU8, AtomicU64, Mutex, MutexGuard, Ordering, PoisonError, fence, give_way};
use crate::{Clock, ClockError, Id, IdError, Layout, Reason};

/// The code of [`IdError::NotStarted`] among those of reasons.
const NOT_STARTED: u8 = 0;

/// In nanoseconds.
const MILLISECOND: u64 = 1_000_000;

/// One stream of stamps.
#[derive(Debug)]
pub(crate) struct Source<I, C> {
    layout: Layout<I>,
    tick: u64,
    /// How many of the counter's bits are in a stamp.
    counter_bits: u8,
    /// The first stamp that the layout has not.
    end: u64,
    /// For how long the clock is waited for.
    patience: u64,
    clock: C,
    /// Of the process that it belongs to.
    generation: Generation,
    state: State,
    next: Alone<AtomicU64>,
    control: Mutex<Control>,
}

/// What is read at every call, and written when a lease begins, goes on or ends.
#[derive(Debug)]
struct State {
    /// Odd while a term is being changed.
    version: AtomicU64,
    /// By the boot clock; 0 while off.
    deadline: AtomicU64,
    /// What makes the boot clock nanoseconds since the layout's epoch.
    base: AtomicU64,
    /// The first stamp that may not be used.
    limit: AtomicU64,
    /// Stamps below may run ahead of the clock.
    ahead: AtomicU64,
    machine: AtomicU64,
    /// Why it is off.
    reason: AtomicU8,
}

/// For whoever starts and stops it, one at a time.
#[derive(Debug)]
struct Control {
    /// No stamp below is given any more.
    floor: u64,
    /// Where the term began.
    began: u64,
}

/// On a cache line of its own, since it is written at every call.
#[derive(Debug)]
#[repr(align(128))]
struct Alone<T>(T);

/// Stamps that were taken together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Taken {
    first: u64,
    pub(crate) count: u64,
    machine: u64,
}

/// For how long, and for which stamps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Term {
    /// By the boot clock.
    pub(crate) deadline: Duration,
    /// The reserved ID time, since Unix's origin. Without one, it is from now on.
    pub(crate) window: Option<Window>,
}

impl<I: Id, C: Clock> Source<I, C> {
    pub(crate) fn new(layout: Layout<I>, patience: Duration, clock: C, generation: Generation) -> Self {
        // One bit stays free, so that no number of attempts beyond the limit brings `next` back to small numbers.
        let counter_bits = layout.counter_bits().min(63 - layout.time_bits());
        Self {
            layout,
            tick: nanos(layout.tick()),
            counter_bits,
            end: 1_u64 << (layout.time_bits() + counter_bits),
            patience: nanos(patience),
            clock,
            generation,
            state: State {
                version: AtomicU64::new(0),
                deadline: AtomicU64::new(0),
                base: AtomicU64::new(0),
                limit: AtomicU64::new(0),
                ahead: AtomicU64::new(0),
                machine: AtomicU64::new(0),
                reason: AtomicU8::new(NOT_STARTED),
            },
            next: Alone(AtomicU64::new(0)),
            control: Mutex::new(Control { floor: 0, began: 0 }),
        }
    }

    pub(crate) const fn layout(&self) -> &Layout<I> {
        &self.layout
    }

    /// The `index`-th of the stamps that were taken, as an ID.
    #[inline]
    pub(crate) fn id(&self, taken: Taken, index: u64) -> I {
        let stamp = taken.first + index;
        let counter = stamp & ((1 << self.counter_bits) - 1);
        I::assemble(stamp >> self.counter_bits, taken.machine, counter, self.layout.shifts())
    }

    /// Takes up to `count` stamps of the present tick, and waits for the next tick where it has none left.
    #[inline]
    pub(crate) fn take_sorted(&self, count: u64) -> Result<Taken, IdError> {
        self.take_sorted_within(count, self.patience)
    }

    /// The same, and waits for the clock for so many nanoseconds at most.
    #[inline]
    pub(crate) fn take_sorted_within(&self, count: u64, patience: u64) -> Result<Taken, IdError> {
        loop {
            let version = self.state.version.load(Ordering::Acquire);
            let machine = self.state.machine.load(Ordering::Relaxed);
            let limit = self.state.limit.load(Ordering::Relaxed);
            let now = self.clock.boot();
            self.still_on(now)?;
            // Behind the end of its time, a layout stands still there, and refuses below.
            let tick = self.ticks(self.since_epoch(now)?).min(self.end >> self.counter_bits);
            let (this_tick, next_tick) = (tick << self.counter_bits, (tick + 1) << self.counter_bits);
            let next = self.next.0.load(Ordering::Relaxed);
            let first = next.max(this_tick);
            if first >= limit {
                self.refuse(first, now, version)?;
                continue;
            }
            if first >= next_tick {
                self.wait_for((next >> self.counter_bits) * self.tick, version, patience)?;
                continue;
            }
            let count = count.min(next_tick.min(limit) - first);
            let swapped =
                self.next.0.compare_exchange_weak(next, first + count, Ordering::AcqRel, Ordering::Relaxed);
            if swapped.is_ok() && self.unchanged(version) {
                return Ok(Taken { first, count, machine });
            }
        }
    }

    /// The deadline on the clock that counts sleep, then the generation.
    #[inline]
    fn still_on(&self, now: u64) -> Result<(), IdError> {
        let deadline = self.state.deadline.load(Ordering::Relaxed);
        if now < deadline && self.generation.is_current() { Ok(()) } else { Err(self.why_off(deadline)) }
    }

    #[inline]
    fn since_epoch(&self, now: u64) -> Result<u64, IdError> {
        let since = now.wrapping_add(self.state.base.load(Ordering::Relaxed));
        // Below zero it is a number that no layout reaches.
        if since > i64::MAX as u64 { Err(IdError::Clock(ClockError::BeforeEpoch)) } else { Ok(since) }
    }

    /// Where the tick of a stamp begins, in nanoseconds since the epoch.
    #[inline]
    fn begin_of(&self, stamp: u64) -> u64 {
        (stamp >> self.counter_bits).saturating_mul(self.tick)
    }

    #[inline]
    fn ticks(&self, nanos: u64) -> u64 {
        // Division by a constant is much cheaper, and this one is the usual.
        if self.tick == MILLISECOND { nanos / MILLISECOND } else { nanos / self.tick }
    }

    #[inline]
    fn unchanged(&self, version: u64) -> bool {
        fence(Ordering::Acquire);
        let same = version % 2 == 0 && self.state.version.load(Ordering::Relaxed) == version;
        if !same {
            give_way();
        }
        same
    }

    #[cold]
    fn why_off(&self, deadline: u64) -> IdError {
        if !self.generation.is_current() {
            return IdError::Disabled(Reason::Forked);
        }
        if deadline > 0 {
            return IdError::Disabled(Reason::Expired);
        }
        Reason::from_code(self.state.reason.load(Ordering::Relaxed))
            .map_or(IdError::NotStarted, IdError::Disabled)
    }

    /// The stamp lies beyond the limit, unless the term has changed meanwhile.
    #[cold]
    fn refuse(&self, stamp: u64, now: u64, version: u64) -> Result<(), IdError> {
        self.still_on(now)?;
        let limit = self.state.limit.load(Ordering::Relaxed);
        if !self.unchanged(version) || stamp < limit {
            return Ok(());
        }
        let used_up = limit >= self.end;
        Err(if used_up { IdError::EpochExhausted } else { IdError::Clock(ClockError::WindowUsedUp) })
    }

    /// Returns once `due`, in nanoseconds since the epoch, has come; holds nothing meanwhile, and gives up where the source is
    /// turned off or started afresh.
    #[cold]
    fn wait_for(&self, due: u64, version: u64, patience: u64) -> Result<(), IdError> {
        let mut waited_since = None;
        loop {
            let now = self.clock.boot();
            self.still_on(now)?;
            let left = due.saturating_sub(self.since_epoch(now)?);
            if left == 0 || !self.unchanged(version) {
                return Ok(());
            }
            let waited = now.saturating_sub(*waited_since.get_or_insert(now));
            if left > patience || waited > patience {
                return Err(IdError::Clock(ClockError::Behind(Duration::from_nanos(left))));
            }
            self.clock.pause(left);
        }
    }

    /// Starts a new term: with this machine ID, inside this window, until this deadline.
    pub(crate) fn start(&self, machine_id: u16, term: Term) {
        let mut control = self.lock();
        self.turn_off(&mut control, Reason::Stopped as u8);
        if machine_id > self.layout.max_machine_id() {
            self.state.reason.store(Reason::MachineIdTooLarge as u8, Ordering::Relaxed);
            return;
        }
        let (boot, wall) = self.read_clocks();
        let base = wall.wrapping_sub(boot).wrapping_sub(nanos(self.layout.epoch()));
        let this_tick = wall.saturating_sub(nanos(self.layout.epoch())) / self.tick;
        // What others may have used is known with a window alone. Without one, the tick that has begun may be another's.
        let first_tick = match term.window {
            Some(window) => self.tick_at(window.after).map_or(0, |last| last + 1).max(this_tick),
            None => this_tick + 1,
        };
        let first = self.first_of(first_tick).max(control.floor);
        let limit = self.limit(term.window);
        let ahead = term.window.is_some() && first_tick > this_tick;

        self.change(|state| {
            state.machine.store(machine_id.into(), Ordering::Relaxed);
            state.base.store(base, Ordering::Relaxed);
            state.limit.store(limit, Ordering::Relaxed);
            state.ahead.store(if ahead { limit } else { 0 }, Ordering::Relaxed);
            self.next.0.swap(first, Ordering::AcqRel);
            state.deadline.store(nanos(term.deadline), Ordering::Relaxed);
        });
        control.began = first;
    }

    /// The lease goes on, with more time reserved. The wall clock is followed where it went to.
    pub(crate) fn extend(&self, term: Term) {
        let control = self.lock();
        if self.state.deadline.load(Ordering::Relaxed) == 0 {
            return;
        }
        let (boot, wall) = self.read_clocks();
        let limit = self.limit(term.window).max(self.state.limit.load(Ordering::Relaxed));
        // Stamps that run ahead of the clock do so until it has caught up with them.
        let since = wall.saturating_sub(nanos(self.layout.epoch()));
        let caught_up = self.first_of(since / self.tick) >= self.next.0.load(Ordering::Relaxed);
        if self.state.ahead.load(Ordering::Relaxed) > 0 {
            self.state.ahead.store(if caught_up { 0 } else { limit }, Ordering::Relaxed);
        }
        let base = wall.wrapping_sub(boot).wrapping_sub(nanos(self.layout.epoch()));
        self.state.base.store(base, Ordering::Relaxed);
        self.state.limit.store(limit, Ordering::Relaxed);
        self.state.deadline.store(nanos(term.deadline), Ordering::Relaxed);
        drop(control);
    }

    /// Turns it off. Says up to which instant since Unix's origin stamps were used in this term, if any were.
    pub(crate) fn close(&self, reason: Reason) -> Option<Duration> {
        let mut control = self.lock();
        let was_on = self.state.deadline.load(Ordering::Relaxed) > 0;
        let began = control.began;
        let next = self.turn_off(&mut control, reason as u8);
        if !was_on || next <= began {
            return None;
        }
        let tick_after = ((next - 1) >> self.counter_bits) + 1;
        Some(
            self.layout
                .epoch()
                .saturating_add(Duration::from_nanos(tick_after.saturating_mul(self.tick) - 1)),
        )
    }

    /// From here on nothing that is taken is given. Says how far stamps were.
    fn turn_off(&self, control: &mut Control, reason: u8) -> u64 {
        let mut next = 0;
        let limit = self.state.limit.load(Ordering::Relaxed);
        self.change(|state| {
            state.deadline.store(0, Ordering::Relaxed);
            state.reason.store(reason, Ordering::Relaxed);
            state.limit.store(0, Ordering::Relaxed);
            // What was taken beyond the limit was not given.
            next = self.next.0.swap(0, Ordering::AcqRel).min(limit);
        });
        control.floor = control.floor.max(next);
        next
    }

    /// Both clocks at one instant: the boot clock's reading is not before the wall clock's. A process that is stopped between
    /// them finds its stamps behind the time, and not ahead of it.
    fn read_clocks(&self) -> (u64, u64) {
        let mut attempts = 0;
        loop {
            let (before, wall, after) = (self.clock.boot(), self.clock.wall(), self.clock.boot());
            attempts += 1;
            if after.saturating_sub(before) < MILLISECOND || attempts == 5 {
                return (after, wall);
            }
        }
    }

    fn change(&self, change: impl FnOnce(&State)) {
        let version = self.state.version.load(Ordering::Relaxed);
        self.state.version.store(version.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        change(&self.state);
        self.state.version.store(version.wrapping_add(2), Ordering::Release);
    }

    /// The first stamp beyond a window and beyond the layout's time.
    fn limit(&self, window: Option<Window>) -> u64 {
        match window {
            Some(window) => {
                self.tick_at(window.until).map_or(0, |last| self.first_of(last + 1)).min(self.end)
            }
            None => self.end,
        }
    }

    /// The tick in which an instant since Unix's origin lies; `None` before the first.
    fn tick_at(&self, time: Duration) -> Option<u64> {
        time.checked_sub(self.layout.epoch()).map(|since| nanos(since) / self.tick)
    }

    fn first_of(&self, tick: u64) -> u64 {
        u64::try_from(u128::from(tick) << self.counter_bits).unwrap_or(u64::MAX).min(self.end)
    }

    /// Nothing is done under it that panics, and whoever died under it has changed nothing by halves that matters: what it was
    /// about is off.
    fn lock(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod model;
