//! Ends requests that the disk, or another process's lock, holds up for longer than the caller allows.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Lets the watch sleep while there is nothing to watch.
pub(super) struct Watch {
    /// Something may be outstanding: the watch looks again by itself.
    armed: AtomicBool,
    closed: AtomicBool,
    gate: Mutex<()>,
    changed: Condvar,
}

impl Watch {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            armed: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            gate: Mutex::new(()),
            changed: Condvar::new(),
        })
    }

    /// A request is on its way.
    pub(super) fn arm(&self) {
        if !self.armed.swap(true, Ordering::SeqCst) {
            let _gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
            self.changed.notify_one();
        }
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        let _gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        self.changed.notify_one();
    }

    /// Looks eight times per time-out while anything is outstanding, so that no request is late by more than an eighth.
    /// `look` ends what is overdue, and says whether anything is left.
    pub(super) fn run(&self, timeout: Duration, look: impl Fn() -> bool) {
        let pause = (timeout / 8).clamp(Duration::from_millis(1), Duration::from_secs(1));
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.closed.load(Ordering::SeqCst) {
            if !self.armed.load(Ordering::SeqCst) {
                gate = self.changed.wait(gate).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            gate = self.changed.wait_timeout(gate, pause).unwrap_or_else(PoisonError::into_inner).0;
            // Disarmed before the look: what arrives after it arms again.
            self.armed.store(false, Ordering::SeqCst);
            drop(gate);
            if look() {
                self.armed.store(true, Ordering::SeqCst);
            }
            gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        }
    }
}
