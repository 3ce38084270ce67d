//! Signals: what was found at the start, what arrives, and how to stop or end by one.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::{
    SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, pthread_sigmask, sigaction,
};

/// How many signal numbers there are, 0 included, wherever this runs.
const SIGNALS: i32 = 65;

/// The write end of the pipe that handlers report to; -1 before there is one.
static REPORT: AtomicI32 = AtomicI32::new(-1);

/// How many times SIGCONT was handled: the proof that a stop was really one, see [`stop`].
static CONTINUED: AtomicU32 = AtomicU32::new(0);

/// Rust ignores SIGPIPE before `main` begins, and `main` ignores SIGXFSZ, so that what was found must be noted before
/// that. Bit n: signal n was ignored.
static IGNORED_BEFORE: AtomicU64 = AtomicU64::new(0);

#[used]
#[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mod_init_func"))]
#[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".init_array"))]
static BEFORE_MAIN: extern "C" fn() = {
    extern "C" fn note_ignored() {
        let ignored = [libc::SIGPIPE, libc::SIGXFSZ].into_iter().filter(|&signo| is_ignored(signo));
        IGNORED_BEFORE.store(ignored.fold(0, |found, signo| found | 1 << bit(signo)), Ordering::Relaxed);
    }
    note_ignored
};

/// The dispositions and the mask that this process was started with. The command gets them back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Inherited {
    /// Bit n: signal n was ignored.
    pub(crate) ignored: u64,
    /// Bit n: signal n was blocked.
    pub(crate) blocked: u64,
}

impl Inherited {
    /// To be called before any handler is installed.
    pub(crate) fn note() -> Self {
        let mut found = Self::default();
        let mut blocked = SigSet::empty();
        // Asking for the own mask cannot fail.
        let _ = pthread_sigmask(SigmaskHow::SIG_BLOCK, None, Some(&mut blocked));
        for signo in 1..SIGNALS {
            let ignored = match signo {
                libc::SIGPIPE | libc::SIGXFSZ => {
                    IGNORED_BEFORE.load(Ordering::Relaxed) >> bit(signo) & 1 == 1
                }
                _ => is_ignored(signo),
            };
            found.ignored |= u64::from(ignored) << bit(signo);
            // SAFETY: reads an initialised set; a number beyond the last signal is answered with -1.
            let is_blocked = unsafe { libc::sigismember(blocked.as_ref(), signo) } == 1;
            found.blocked |= u64::from(is_blocked) << bit(signo);
        }
        found
    }

    /// Whether this signal was ignored at the start.
    pub(crate) fn ignores(&self, signal: Signal) -> bool {
        self.ignored >> bit(signal as i32) & 1 == 1
    }

    /// Puts it all back. Only async-signal-safe calls: it runs between fork and exec.
    pub(crate) fn restore(&self) {
        for signo in 1..SIGNALS {
            let handler = if self.ignored >> bit(signo) & 1 == 1 { libc::SIG_IGN } else { libc::SIG_DFL };
            // SAFETY: neither disposition runs code of ours. KILL, STOP and the C library's own signals are refused,
            // which is right.
            unsafe { libc::signal(signo, handler) };
        }
        let mut mask: libc::sigset_t = *SigSet::empty().as_ref();
        for signo in 1..SIGNALS {
            if self.blocked >> bit(signo) & 1 == 1 {
                // SAFETY: the set is initialised; an impossible number is refused.
                unsafe { libc::sigaddset(&raw mut mask, signo) };
            }
        }
        // SAFETY: the set is initialised, and the old one is not asked for.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const mask, std::ptr::null_mut()) };
    }
}

/// Signals that arrive, in their order, as a descriptor to wait for.
///
/// A pipe that handlers write to, and not signalfd: the same code on every Unix, and a stop signal can be given its
/// default disposition back for a moment.
pub(crate) struct Signals {
    arrived: File,
    _report: OwnedFd,
}

impl Signals {
    /// Begins to listen. There is one listener in a process.
    pub(crate) fn listen(to: impl IntoIterator<Item = Signal>) -> io::Result<Self> {
        let (arrived, report) = nix::unistd::pipe()?;
        for end in [&arrived, &report] {
            super::fds::close_on_exec(end)?;
            super::fds::nonblocking(end)?;
        }
        REPORT.store(report.as_raw_fd(), Ordering::Release);
        let mut unblocked = SigSet::empty();
        for signal in to {
            install(signal, SigHandler::Handler(on_signal))?;
            unblocked.add(signal);
        }
        unblocked.thread_unblock()?;
        Ok(Self { arrived: File::from(arrived), _report: report })
    }

    /// The next signal that has arrived and was not taken yet.
    pub(crate) fn next(&self) -> Option<Signal> {
        let mut signo = [0; 1];
        match (&self.arrived).read(&mut signo) {
            Ok(1) => Signal::try_from(i32::from(signo[0])).ok(),
            _ => None,
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.arrived.as_fd()
    }
}

impl AsRawFd for Signals {
    fn as_raw_fd(&self) -> RawFd {
        self.arrived.as_raw_fd()
    }
}

/// Who a signal of ours goes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Whom {
    /// This process alone.
    Myself,
    /// This process and all others of its group: the script around it.
    MyGroup,
}

/// Blocks a signal for the threads that are there and are to come.
pub(crate) fn block(signal: Signal) {
    let mut set = SigSet::empty();
    set.add(signal);
    // Only an unknown operation could be refused.
    let _ = set.thread_block();
}

/// Blocks every signal for the calling thread, so that handlers run on the main one.
pub(crate) fn block_all() {
    let _ = SigSet::all().thread_block();
}

/// Ignores signals from now on, also across exec. Async-signal-safe.
pub(crate) fn ignore(signals: &[Signal]) {
    for &signal in signals {
        // SAFETY: being ignored runs no code.
        unsafe { libc::signal(signal as i32, libc::SIG_IGN) };
    }
}

/// Stops by a stop signal with its default disposition, and returns when continued.
///
/// False where the kernel discarded the signal since nobody could continue us: then no SIGCONT has come.
pub(crate) fn stop(by: Signal, whom: Whom) -> bool {
    let before = CONTINUED.load(Ordering::Relaxed);
    raise_default(by, whom);
    CONTINUED.load(Ordering::Relaxed) != before
}

/// Ends by a signal with its default disposition, without a core. It returns only where the kernel protects us, as it
/// does the first process of a container.
pub(crate) fn end(by: Signal, whom: Whom) {
    super::process::forbid_core();
    raise_default(by, whom);
}

/// Sends a signal, at its default disposition and unblocked, and takes what comes of it before it returns.
fn raise_default(signal: Signal, whom: Whom) {
    let Ok(old) = install(signal, SigHandler::SigDfl) else { return };
    let mut only = SigSet::empty();
    only.add(signal);
    let was = only.thread_swap_mask(SigmaskHow::SIG_UNBLOCK);
    let pid = match whom {
        Whom::Myself => nix::unistd::getpid(),
        Whom::MyGroup => nix::unistd::Pid::from_raw(0),
    };
    let _ = nix::sys::signal::kill(pid, signal);
    if let Ok(mask) = was {
        let _ = mask.thread_set_mask();
    }
    // SAFETY: what was there before is a disposition or our own handler.
    let _ = unsafe { sigaction(signal, &old) };
}

fn install(signal: Signal, handler: SigHandler) -> io::Result<SigAction> {
    let action = SigAction::new(handler, SaFlags::SA_RESTART, SigSet::all());
    // SAFETY: `on_signal`, the only handler there is, is async-signal-safe.
    Ok(unsafe { sigaction(signal, &action) }?)
}

extern "C" fn on_signal(signo: libc::c_int) {
    let errno = Errno::last_raw();
    if signo == libc::SIGCONT {
        CONTINUED.fetch_add(1, Ordering::Relaxed);
    }
    let report = REPORT.load(Ordering::Acquire);
    let byte = signo as u8;
    // SAFETY: write is async-signal-safe, the byte outlives the call, and the descriptor stays open for as long as
    // handlers are installed. A full pipe loses one report among thousands that wait.
    unsafe { libc::write(report, (&raw const byte).cast(), 1) };
    Errno::set_raw(errno);
}

fn is_ignored(signo: i32) -> bool {
    // SAFETY: all zeroes is a valid sigaction, and asking changes nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signo, std::ptr::null(), &raw mut action) == 0 && action.sa_sigaction == libc::SIG_IGN
    }
}

fn bit(signo: i32) -> u32 {
    // Signals are numbered from 1 to 64.
    (signo - 1) as u32
}
