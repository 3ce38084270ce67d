//! The test program as a process of a scenario: a member of a tree that writes down when it last did something.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use nix::libc;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

use super::now;

/// The first argument of such a process.
const ACTOR: &str = "--actor";

static TERM_AT: AtomicU64 = AtomicU64::new(0);
static TERMS: AtomicU64 = AtomicU64::new(0);

/// `program --actor ROLE …`, to be run by the command of a scenario.
pub(crate) fn actor(role: &[&str]) -> Vec<String> {
    let program = std::env::current_exe().unwrap().to_str().unwrap().to_owned();
    [program, ACTOR.to_owned()].into_iter().chain(role.iter().map(|&word| word.to_owned())).collect()
}

/// Plays the role that the command line says, if it says one.
pub(crate) fn act() -> Option<ExitCode> {
    let args: Vec<String> = std::env::args().collect();
    let (ACTOR, role) = (args.get(1)?.as_str(), args.get(2..)?) else { return None };
    let role: Vec<&str> = role.iter().map(String::as_str).collect();
    match role[..] {
        ["member", file, hears] => member(Path::new(file), hears == "deaf"),
        ["ear", file] => ear(Path::new(file)),
        ["reader", go] => reader(Path::new(go)),
        ["clock"] => clock(),
        ["tree", folder] => tree(Path::new(folder)),
        ["spinners", folder, count] => spinners(Path::new(folder), count.parse().unwrap()),
        ["root", file] => {
            nix::unistd::setuid(nix::unistd::Uid::from_raw(0)).unwrap();
            member(Path::new(file), true)
        }
        ["headless", folder] => headless(Path::new(folder)),
        ["chain", file] => chain(Path::new(file)),
        ["crowd", folder, count] => crowd(Path::new(folder), count.parse().unwrap()),
        _ => unreachable!("{role:?}"),
    }
}

/// Puts all dispositions and the mask to their defaults. Async-signal-safe.
pub(crate) fn default_signals() {
    for signo in 1..=31 {
        // SAFETY: the default disposition runs no code of ours.
        unsafe { libc::signal(signo, libc::SIG_DFL) };
    }
    let _ = SigSet::empty().thread_set_mask();
}

/// What a member wrote down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Diary {
    /// When it last did something, on the boot clock.
    pub(crate) last_act: Duration,
    /// When it got its first TERM.
    pub(crate) term_at: Option<Duration>,
    /// How many it got.
    pub(crate) terms: u64,
}

impl Diary {
    pub(crate) fn read(file: &Path) -> Option<Self> {
        let mut bytes = [0; 24];
        File::open(file).ok()?.read_exact_at(&mut bytes, 0).ok()?;
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let term_at = Some(word(8)).filter(|&at| at != 0).map(Duration::from_nanos);
        Some(Self { last_act: Duration::from_nanos(word(0)), term_at, terms: word(16) })
    }
}

/// Lives until it is killed, and writes down every two milliseconds that it does. It hears TERM; a deaf one goes on.
fn member(file: &Path, deaf: bool) -> ! {
    extern "C" fn heard(_: libc::c_int) {
        let at = now().as_nanos() as u64;
        let _ = TERM_AT.compare_exchange(0, at, Ordering::Relaxed, Ordering::Relaxed);
        TERMS.fetch_add(1, Ordering::Relaxed);
    }
    let action = SigAction::new(SigHandler::Handler(heard), SaFlags::SA_RESTART, SigSet::empty());
    // SAFETY: the handler reads a clock and sets numbers.
    unsafe { sigaction(Signal::SIGTERM, &action) }.unwrap();
    let diary = File::options().write(true).create(true).truncate(true).open(file).unwrap();
    loop {
        let words = [now().as_nanos() as u64, TERM_AT.load(Ordering::Relaxed), TERMS.load(Ordering::Relaxed)];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        diary.write_all_at(&bytes, 0).unwrap();
        if TERMS.load(Ordering::Relaxed) > 0 && !deaf {
            std::process::exit(0);
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Writes down every signal that it hears, and ends with code 7 soon after the first that means "end" or is its user's.
fn ear(file: &Path) -> ! {
    static HEARD: [AtomicU64; 32] = [const { AtomicU64::new(0) }; 32];
    extern "C" fn heard(signo: libc::c_int) {
        if let Some(count) = HEARD.get(signo as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
    let names = [
        (Signal::SIGHUP, "HUP"),
        (Signal::SIGINT, "INT"),
        (Signal::SIGQUIT, "QUIT"),
        (Signal::SIGTERM, "TERM"),
        (Signal::SIGUSR1, "USR1"),
        (Signal::SIGUSR2, "USR2"),
    ];
    for (signal, _) in names {
        let action = SigAction::new(SigHandler::Handler(heard), SaFlags::empty(), SigSet::empty());
        // SAFETY: the handler adds to a number.
        unsafe { sigaction(signal, &action) }.unwrap();
    }
    std::fs::write(file, "").unwrap();
    let counts = || names.map(|(signal, name)| (name, HEARD[signal as usize].load(Ordering::Relaxed)));
    while counts().iter().all(|&(_, count)| count == 0) {
        thread::sleep(Duration::from_millis(2));
    }
    // A second delivery would come right behind the first.
    thread::sleep(Duration::from_millis(200));
    let text: String = counts()
        .iter()
        .flat_map(|&(name, count)| std::iter::repeat_n(format!("{name}\n"), count as usize))
        .collect();
    std::fs::write(file, text).unwrap();
    std::process::exit(7)
}

/// Waits until a file is there, reads a line, and shows it. A shell script would fork, and a process that is stopped
/// between vfork and exec keeps its parent from being stopped.
fn reader(go: &Path) -> ! {
    println!("ready");
    while !go.exists() {
        thread::sleep(Duration::from_millis(10));
    }
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    println!("got:{line}");
    std::process::exit(0)
}

/// Shows that it is alive, ten times a second.
fn clock() -> ! {
    println!("ready");
    loop {
        println!("alive");
        thread::sleep(Duration::from_millis(100));
    }
}

/// The tree of processes that a wrapper has to reach: itself, one in its group, one in a group of its own (`timeout` makes
/// it), one in a session of its own, and a daemon that nobody is the parent of.
#[allow(clippy::zombie_processes)] // It is killed with its children.
fn tree(folder: &Path) -> ! {
    let spawn = |program: &str, args: &[&str], name: &str, hears: &str| {
        let member = actor(&["member", folder.join(name).to_str().unwrap(), hears]);
        Command::new(program).args(args).args(member).spawn().unwrap();
    };
    spawn("env", &[], "same-group", "deaf");
    spawn("timeout", &["1000"], "own-group", "hears");
    spawn("setsid", &[], "own-session", "deaf");
    spawn("sh", &["-c", "setsid \"$@\" & exit 0", "sh"], "daemon", "deaf");
    member(&folder.join("command"), true)
}

/// Processes that use all the time of the processor that they can get, each with a diary.
fn spinners(folder: &Path, count: usize) -> ! {
    ignore_term();
    for number in 0..count {
        // SAFETY: this process has one thread.
        if let nix::unistd::ForkResult::Child = unsafe { nix::unistd::fork() }.unwrap() {
            let diary = File::create(folder.join(format!("spin-{number}"))).unwrap();
            loop {
                write_act(&diary);
                (0..100_000).for_each(|_| std::hint::spin_loop());
            }
        }
    }
    loop {
        nix::unistd::pause();
    }
}

/// Forks a successor and ends, again and again: whoever looks for it finds one that is gone. Each writes down that it
/// lived.
fn chain(file: &Path) -> ! {
    ignore_term();
    let diary = File::options().write(true).create(true).truncate(false).open(file).unwrap();
    loop {
        write_act(&diary);
        // SAFETY: this process has one thread.
        match unsafe { nix::unistd::fork() }.unwrap() {
            nix::unistd::ForkResult::Child => {}
            // SAFETY: the successor goes on; nothing is to be cleaned up.
            nix::unistd::ForkResult::Parent { .. } => unsafe { libc::_exit(0) },
        }
    }
}

/// Only KILL is to end a storm.
fn ignore_term() {
    // SAFETY: being ignored runs no code.
    unsafe { libc::signal(libc::SIGTERM, libc::SIG_IGN) };
}

fn write_act(diary: &File) {
    let mut bytes = [0; 24];
    bytes[..8].copy_from_slice(&(now().as_nanos() as u64).to_le_bytes());
    diary.write_all_at(&bytes, 0).unwrap();
}

/// Many processes, one of which is a member.
fn crowd(folder: &Path, count: usize) -> ! {
    ignore_term();
    for _ in 0..count {
        // SAFETY: this process has one thread, and the child only waits.
        if let nix::unistd::ForkResult::Child = unsafe { nix::unistd::fork() }.unwrap() {
            loop {
                nix::unistd::pause();
            }
        }
    }
    member(&folder.join("crowd"), true)
}

/// A process whose first thread ends and whose second works on: the kernel shows it as a zombie from then on. Nobody
/// finds it by its mark, so that it ends by itself.
fn headless(folder: &Path) -> ! {
    let work = {
        let folder = folder.to_owned();
        move || {
            let state = || {
                let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
                stat.rsplit_once(')').unwrap().1.trim_start().starts_with('Z').then_some(())
            };
            super::until("the first thread to end", super::SOON, state);
            File::create(folder.join("headless")).unwrap();
            super::until("the word to end", super::SOON, || folder.join("go").exists().then_some(()));
            std::process::exit(0)
        }
    };
    thread::spawn(work);
    // SAFETY: ends this thread and nothing else; what it leaves behind is never used again.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
    unreachable!("the thread has ended")
}
