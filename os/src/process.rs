//! Which process of the machine somebody is, so that another can prove that it is gone.

use std::fmt;
use std::str::FromStr;

/// A process of this boot of a machine, told apart from each other that had or will have its number.
///
/// It is written down where others find it, as text: `pid=4711 start=121113 ns=4026531836,4026531834 boot=…`. Whoever reads it
/// later asks [`is_gone`](Self::is_gone).
///
/// ```
/// use lease_machines_os::Process;
///
/// if let Some(own) = Process::current() {
///     let read: Process = own.to_string().parse()?;
///     assert!(!read.is_gone());
/// }
/// # Ok::<(), lease_machines_os::NoProcess>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Process {
    /// Its number, in its own PID namespace.
    pid: u32,
    /// When it was started, in ticks since the machine's start, as its time namespace sees them.
    started: u64,
    place: Place,
}

/// Where a number means one process, and a start one instant.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Place {
    /// Drawn by the kernel at each start of the machine.
    boot: String,
    /// The namespaces' inodes. The kernel gives one to another namespace only when nobody is left in the first. 0 for the time
    /// namespace of a kernel that has none.
    pids: u64,
    times: u64,
}

/// A text that says of no process which one it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct NoProcess;

impl Process {
    /// The one that asks. `None` where the system does not tell, and then nobody will ever prove that it is gone: elsewhere
    /// than on Linux and Android; without `/proc`; where `/proc` is that of another PID namespace.
    ///
    /// It is asked anew each time, since a child of a fork is another process. That takes some tenths of a millisecond.
    #[must_use]
    pub fn current() -> Option<Self> {
        let place = system::place()?;
        let pid = std::process::id();
        Some(Self { pid, started: system::started(pid)?, place })
    }

    /// Whether it is proven that this process does not exist any more. It is no proof, and `false`, where it may only seem so:
    ///
    /// - on another boot, or another machine, or in another PID namespace, where its number is another's;
    /// - where [`current`](Self::current) is `None`;
    /// - where its number is in use, and it cannot be seen since when, or the one that has it began no later;
    /// - as long as it is a zombie: the number is still its own.
    ///
    /// The number alone is asked for by `kill`, which finds also what a `/proc` hides that is mounted with `hidepid`. Machines
    /// that were cloned while they ran are one boot to each other; no system shows that.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        let Some(here) = system::place() else { return false };
        self.is_gone_by(&here, system::exists, system::started)
    }

    /// The same, by what `here` the one question and the other are answered with.
    fn is_gone_by(
        &self,
        here: &Place,
        exists: impl FnOnce(u32) -> bool,
        started: impl FnOnce(u32) -> Option<u64>,
    ) -> bool {
        if (&self.place.boot, self.place.pids) != (&here.boot, here.pids) {
            return false;
        }
        if !exists(self.pid) {
            return true;
        }
        // Whoever has its number now can only have got it after its end. An earlier start is one that was read differently.
        self.place.times == here.times && started(self.pid).is_some_and(|other| self.started < other)
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pid, started, place: Place { boot, pids, times } } = self;
        write!(f, "pid={pid} start={started} ns={pids},{times} boot={boot}")
    }
}

impl FromStr for Process {
    type Err = NoProcess;

    fn from_str(text: &str) -> Result<Self, NoProcess> {
        fn parts(text: &str) -> Option<Process> {
            let mut words = text.split(' ');
            let mut word = |name| words.next()?.strip_prefix(name)?.strip_prefix('=');
            let (pid, started, namespaces, boot) = (word("pid")?, word("start")?, word("ns")?, word("boot")?);
            let (pids, times) = namespaces.split_once(',')?;
            let place = Place { boot: boot_id(boot)?, pids: pids.parse().ok()?, times: times.parse().ok()? };
            let process = Process { pid: pid.parse().ok()?, started: started.parse().ok()?, place };
            (words.next().is_none() && process.pid != 0 && process.started != 0).then_some(process)
        }
        // What is not written in the same way again is not what was written down.
        parts(text).filter(|process| process.to_string() == text).ok_or(NoProcess)
    }
}

impl fmt::Display for NoProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected `pid=NUMBER start=NUMBER ns=NUMBER,NUMBER boot=UUID`")
    }
}

impl std::error::Error for NoProcess {}

/// 32 digits in five groups.
fn boot_id(text: &str) -> Option<String> {
    let is_uuid = text.len() == 36 && text.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit());
    is_uuid.then(|| text.to_owned())
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod system {
    use std::fs;
    use std::io::ErrorKind;

    use rustix::io::Errno;
    use rustix::process::{Pid, test_kill_process};

    use super::{Place, boot_id};

    /// Where this process is, if `/proc` shows it under the numbers that it and `kill` know.
    pub(super) fn place() -> Option<Place> {
        let status = text("/proc/self/status")?;
        if seen_as(&status)? != [std::process::id()] {
            return None;
        }
        let boot = text("/proc/sys/kernel/random/boot_id")?;
        let times = match fs::read_link("/proc/self/ns/time") {
            Ok(link) => inode(link.to_str()?, "time")?,
            Err(error) if error.kind() == ErrorKind::NotFound => 0,
            Err(_) => return None,
        };
        let pids = inode(fs::read_link("/proc/self/ns/pid").ok()?.to_str()?, "pid")?;
        Some(Place { boot: boot_id(boot.trim())?, pids, times })
    }

    /// The numbers of a process, from the PID namespace of the `/proc` that this is the `status` of down to its own.
    pub(super) fn seen_as(status: &str) -> Option<Vec<u32>> {
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
        numbers.split_whitespace().map(|number| number.parse().ok()).collect()
    }

    /// Of what a link to a namespace says, `pid:[4026531836]`.
    fn inode(link: &str, kind: &str) -> Option<u64> {
        link.strip_prefix(kind)?.strip_prefix(":[")?.strip_suffix(']')?.parse().ok()
    }

    /// Whether anybody has this number; whoever may not be asked exists.
    pub(super) fn exists(pid: u32) -> bool {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        pid.is_none_or(|pid| test_kill_process(pid) != Err(Errno::SRCH))
    }

    /// When the process of this number was started. An emulator that says 0 does not know.
    pub(super) fn started(pid: u32) -> Option<u64> {
        started_by(&text(&format!("/proc/{pid}/stat"))?)
    }

    /// A process's name, which is among what is read, may be any bytes, or a text that was cut off within a character.
    fn text(path: &str) -> Option<String> {
        Some(String::from_utf8_lossy(&fs::read(path).ok()?).into_owned())
    }

    /// The 22nd field. The second is a name in parentheses, which may have spaces and parentheses in it.
    pub(super) fn started_by(stat: &str) -> Option<u64> {
        let (_, rest) = stat.rsplit_once(") ")?;
        rest.split(' ').nth(22 - 3)?.parse().ok().filter(|started| *started != 0)
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod system {
    use super::Place;

    pub(super) const fn place() -> Option<Place> {
        None
    }

    pub(super) const fn exists(_: u32) -> bool {
        true
    }

    pub(super) const fn started(_: u32) -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process() -> Process {
        let boot = "507d1437-0bd8-496e-8ef1-f32574c29fbb".to_owned();
        Process {
            pid: 4711,
            started: 121_113,
            place: Place { boot, pids: 4_026_531_836, times: 4_026_531_834 },
        }
    }

    #[test]
    fn it_is_read_as_it_was_written_and_nothing_else_is() {
        let text = "pid=4711 start=121113 ns=4026531836,4026531834 boot=507d1437-0bd8-496e-8ef1-f32574c29fbb";
        assert_eq!(process().to_string(), text);
        assert_eq!(text.parse(), Ok(process()));
        let wrong = [
            String::new(),
            text[..text.len() - 1].to_owned(),
            format!("{text} "),
            format!("{text} pid=1"),
            text.replace("pid=4711", "pid=0"),
            text.replace("pid=4711", "pid=+4711"),
            text.replace("pid=4711", "pid=04711"),
            text.replace("pid=4711", "pid=4294967296"),
            text.replace("start=121113", "start=0"),
            text.replace("start=121113", "start=-1"),
            text.replace(",4026531834", ""),
            text.replace("boot=5", "boot=x"),
            text.replace(' ', "  "),
        ];
        for wrong in wrong {
            assert_eq!(wrong.parse::<Process>(), Err(NoProcess), "{wrong:?}");
        }
    }

    /// All that is no proof, and what is.
    #[test]
    fn only_what_cannot_be_otherwise_is_a_proof() {
        let (own, here) = (process(), process().place);
        let unused = |_| false;
        assert!(own.is_gone_by(&here, unused, |_| None), "nobody has the number");
        assert!(own.is_gone_by(&here, |_| true, |_| Some(121_114)), "one that began later has it");

        assert!(!own.is_gone_by(&here, |_| true, |_| Some(121_113)), "it is there");
        assert!(!own.is_gone_by(&here, |_| true, |_| Some(121_112)), "its start is read differently now");
        assert!(!own.is_gone_by(&here, |_| true, |_| None), "a /proc that hides it, or cannot be read");
        let elsewhere = [
            Place { boot: here.boot.replace('5', "6"), ..here.clone() },
            Place { pids: here.pids + 1, ..here.clone() },
        ];
        for elsewhere in elsewhere {
            assert!(!own.is_gone_by(&elsewhere, unused, |_| None), "another's number: {elsewhere:?}");
        }
        let shifted = Place { times: here.times + 1, ..here };
        assert!(!own.is_gone_by(&shifted, |_| true, |_| Some(900_000)), "by a clock that is shifted");
        assert!(own.is_gone_by(&shifted, unused, |_| None), "a number needs no clock");
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    #[test]
    fn where_the_system_does_not_tell_nothing_is_proven() {
        assert_eq!(Process::current(), None);
        assert!(!process().is_gone());
    }

    #[cfg(target_os = "linux")]
    mod on_linux {
        use std::process::{Child, Command};
        use std::time::{Duration, Instant};

        use super::super::system;
        use super::*;

        fn of(child: &Child) -> Process {
            let own = Process::current().expect("a /proc of this namespace");
            Process { pid: child.id(), started: system::started(child.id()).expect("it is there"), ..own }
        }

        #[test]
        fn one_that_was_killed_is_gone_when_its_number_is_free() {
            let mut child = Command::new("sleep").arg("600").spawn().expect("it starts");
            let process = of(&child);
            assert!(!process.is_gone());
            child.kill().expect("SIGKILL");
            let begun = Instant::now();
            let stat = format!("/proc/{}/stat", child.id());
            while !std::fs::read_to_string(&stat).expect("not waited for").contains(") Z ") {
                assert!(begun.elapsed() < Duration::from_secs(60), "it does not die");
                std::thread::sleep(Duration::from_millis(1));
            }
            assert!(!process.is_gone(), "a zombie's number is its own");
            child.wait().expect("its child");
            assert!(process.is_gone());
        }

        #[test]
        fn the_number_of_one_that_is_gone_says_nothing_of_who_has_it_now() {
            let mut child = Command::new("sleep").arg("600").spawn().expect("it starts");
            let process = of(&child);
            let before = Process { started: process.started - 1, ..process.clone() };
            let after = Process { started: process.started + 1, ..process.clone() };
            assert!(before.is_gone(), "the child has its number");
            assert!(!after.is_gone() && !process.is_gone());
            child.kill().expect("SIGKILL");
            child.wait().expect("its child");
        }

        #[test]
        fn a_thread_is_its_process() {
            let own = Process::current().expect("a /proc of this namespace");
            assert_eq!(std::thread::spawn(Process::current).join().expect("no panic"), Some(own.clone()));
            assert_eq!(own.to_string().parse(), Ok(own.clone()));
            assert!(!own.is_gone());
        }

        #[test]
        fn what_the_kernel_says_is_read_by_its_rules() {
            let fields = "S 1 4711 4711 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 121113 3231744 464";
            for name in ["sh", "a b", "a) S 1 (b", "(("] {
                assert_eq!(system::started_by(&format!("4711 ({name}) {fields}")), Some(121_113), "{name}");
            }
            for wrong in
                ["", "4711 (sh) S 1", "4711 (sh)", &format!("1 (sh) {}", fields.replace("121113", "0"))]
            {
                assert_eq!(system::started_by(wrong), None, "{wrong:?}");
            }
            assert_eq!(system::seen_as("Name:\tsh\nNSpid:\t812\t1\nNSpgid:\t0\n"), Some(vec![812, 1]));
            assert_eq!(system::seen_as("Name:\tsh\nPid:\t812\n"), None, "a kernel that does not tell");
        }
    }
}
