//! Waiting for an answer: the thread, or under a Fiber scheduler the fiber, that asked does so itself, and can be
//! interrupted.
//!
//! The one who waits polls the store's future; no other thread is between. An interrupt (`Timeout`, `Thread#kill`, a
//! signal) wakes it, Ruby is asked what to do about it, and where that is to raise, the future is dropped, which takes back
//! what was not begun.

use std::future::Future;
use std::io::{self, Read, Write};
use std::mem;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use magnus::{Error, RClass, Ruby, Value, kwargs, prelude::*};

use crate::errors;
use crate::gvl::{self, Panicked};
use crate::process::{self, Own};

/// The future of an answer. It is in a box, since the stack of a fiber that is never resumed is freed without anything on it
/// being dropped.
type Asked<T> = Own<Pin<Box<dyn Future<Output = T> + Send>>>;

/// The answer; an `Err` where Ruby had something raised meanwhile, and then the future is gone.
///
/// # Errors
///
/// Also in a child that was forked meanwhile, by a signal's handler or by another fiber: the answer is its parent's.
pub(crate) fn for_answer<T: Send + 'static>(
    ruby: &Ruby,
    answer: impl Future<Output = T> + Send + 'static,
) -> Result<T, Error> {
    let answer: Asked<T> = Own::new(Box::pin(answer));
    let fiber: RClass = ruby.class_object().const_get("Fiber")?;
    if fiber.funcall::<_, _, Value>("current_scheduler", ())?.is_nil() {
        in_thread(ruby, answer)
    } else {
        in_fiber(ruby, answer)
    }
}

/// What a thread of the runtime gives that may block; it goes on where something is raised meanwhile.
///
/// # Errors
///
/// Also where the process may have no thread more.
pub(crate) fn for_work<T: Send + 'static>(
    ruby: &Ruby,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    let none = |error: io::Error| errors::no_resources(ruby, &error);
    let runtime = process::current().map_err(none)?.runtime();
    // The runtime panics where it has no thread and gets none.
    let begun = gvl::caught(|| runtime.spawn_blocking(work));
    let begun = begun.map_err(|panicked| none(io::Error::other(panicked.0)))?;
    for_answer(ruby, begun)?.map_err(|died| errors::fault(ruby, &died.to_string()))
}

/// Sleeps without Ruby's lock.
fn in_thread<T: Send>(ruby: &Ruby, mut answer: Asked<T>) -> Result<T, Error> {
    let sleeper = Arc::new(Sleeper::default());
    let waker = Waker::from(Arc::clone(&sleeper));
    loop {
        let waited = gvl::without(
            || {
                let mut context = Context::from_waker(&waker);
                loop {
                    if let Poll::Ready(answer) = poll(&mut answer, &mut context) {
                        return Some(answer);
                    }
                    if sleeper.sleep() == Woken::ByInterrupt {
                        return None;
                    }
                }
            },
            &|| sleeper.interrupt(),
        );
        match waited {
            Some(Ok(Some(answer))) => return Ok(answer),
            Some(Err(panicked)) => return Err(errors::fault(ruby, &panicked.0)),
            Some(Ok(None)) | None => ruby.thread_check_ints()?,
        }
        unless_forked(ruby, &answer)?;
    }
}

/// Has the scheduler wait for a socket that the answer writes to, so that other fibers run.
fn in_fiber<T>(ruby: &Ruby, mut answer: Asked<T>) -> Result<T, Error> {
    let failed = |error: io::Error| errors::no_resources(ruby, &error);
    let (mut bell, ringer) = UnixStream::pair().map_err(failed)?;
    bell.set_nonblocking(true).map_err(failed)?;
    ringer.set_nonblocking(true).map_err(failed)?;
    let autoclose = kwargs!(ruby, "autoclose" => false);
    // It is closed here, when `bell` is dropped.
    let io: Value = ruby.class_io().funcall("for_fd", (bell.as_raw_fd(), autoclose))?;
    let waker = Waker::from(Arc::new(Ringer(ringer)));
    let mut context = Context::from_waker(&waker);
    loop {
        match gvl::caught(|| poll(&mut answer, &mut context)) {
            Ok(Poll::Ready(answer)) => return Ok(answer),
            Ok(Poll::Pending) => {}
            Err(Panicked(said)) => return Err(errors::fault(ruby, &said)),
        }
        io.funcall::<_, _, Value>("wait_readable", ())?;
        // Before anything is read: the socket is the parent's, too, and so is what is in it.
        unless_forked(ruby, &answer)?;
        // Whatever came is one ring.
        while matches!(bell.read(&mut [0; 64]), Ok(1..)) {}
    }
}

fn poll<T>(asked: &mut Asked<T>, context: &mut Context<'_>) -> Poll<T> {
    // In a child nothing comes any more; `unless_forked` says so.
    asked.get_mut().map_or(Poll::Pending, |answer| answer.as_mut().poll(context))
}

fn unless_forked<T>(ruby: &Ruby, asked: &Asked<T>) -> Result<(), Error> {
    if asked.is_here() { Ok(()) } else { Err(errors::forked(ruby)) }
}

/// What a thread sleeps on.
#[derive(Default)]
struct Sleeper {
    state: Mutex<Pending>,
    changed: Condvar,
}

#[derive(Default)]
struct Pending {
    woken: bool,
    interrupted: bool,
}

#[derive(PartialEq, Eq)]
enum Woken {
    ByAnswer,
    ByInterrupt,
}

impl Sleeper {
    fn sleep(&self) -> Woken {
        let mut pending = self.lock();
        while !pending.woken && !pending.interrupted {
            pending = self.changed.wait(pending).unwrap_or_else(PoisonError::into_inner);
        }
        // Where it is both, the other is found by the next sleep.
        if mem::take(&mut pending.woken) {
            return Woken::ByAnswer;
        }
        pending.interrupted = false;
        Woken::ByInterrupt
    }

    fn interrupt(&self) {
        self.lock().interrupted = true;
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.lock().woken = true;
        self.changed.notify_one();
    }
}

/// What wakes a fiber. Where the socket is full, there is a ring in it already.
struct Ringer(UnixStream);

impl Wake for Ringer {
    fn wake(self: Arc<Self>) {
        let _ = (&self.0).write(&[1]);
    }
}
