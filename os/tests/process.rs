//! Processes in namespaces of their own. A program of its own, which is also what it starts in them.
//!
//! `unshare` may not be allowed here, or not be there: what needs it is counted as skipped then, and says so.

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("0 passed, 0 failed, 3 skipped");
}

#[cfg(target_os = "linux")]
fn main() {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some("tell") => return println!("{}", test::own()),
        Some("look") => return println!("{}", test::look(&arguments.next().unwrap_or_default())),
        _ => {}
    }
    let tests = [
        test::a_number_of_another_namespace_proves_nothing,
        test::a_proc_of_another_namespace_tells_nobody_who_he_is,
        test::a_start_that_is_read_by_a_shifted_clock_proves_nothing,
    ];
    let ran = tests.iter().filter(|test| test()).count();
    println!("{ran} passed, 0 failed, {} skipped", tests.len() - ran);
}

#[cfg(target_os = "linux")]
mod test {
    use std::process::Command;

    use lease_machines_os::Process;

    const NOBODY: &str = "nobody";

    /// How this process would be written down.
    pub(super) fn own() -> String {
        Process::current().map_or_else(|| NOBODY.to_owned(), |own| own.to_string())
    }

    /// Whether the one that was written down is gone.
    pub(super) fn look(text: &str) -> String {
        text.parse::<Process>().expect("as it was told").is_gone().to_string()
    }

    /// What this program says in other namespaces; `None` where there are none to be had.
    fn inside(unshare: &[&str], arguments: &[&str]) -> Option<String> {
        let possible = Command::new("unshare").args(unshare).arg("true").output();
        match possible {
            Ok(output) if output.status.success() => {}
            Ok(output) => {
                println!("skipped: {unshare:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
                return None;
            }
            Err(error) => {
                println!("skipped: unshare: {error}");
                return None;
            }
        }
        let program = std::env::current_exe().expect("a path");
        let output = Command::new("unshare").args(unshare).arg(program).args(arguments).output();
        let output = output.expect("it ran a moment ago");
        assert!(output.status.success(), "{output:?}");
        Some(String::from_utf8(output.stdout).expect("text").trim().to_owned())
    }

    fn outside() -> Process {
        Process::current().expect("a /proc of this namespace")
    }

    /// A container on the same machine: there are few processes in it, and hardly ever one of this number.
    pub(super) fn a_number_of_another_namespace_proves_nothing() -> bool {
        let container = ["-p", "-f", "--mount-proc", "--kill-child"];
        let Some(gone) = inside(&container, &["look", &outside().to_string()]) else { return false };
        assert_eq!(gone, "false", "it lives, and is not to be seen from there");
        let first = inside(&container, &["tell"]).expect("as before");
        assert!(first.starts_with("pid=1 "), "{first}");
        // It has ended with its container. But its number 1 is that of another here.
        assert_eq!(look(&first), "false");
        true
    }

    pub(super) fn a_proc_of_another_namespace_tells_nobody_who_he_is() -> bool {
        let half = ["-p", "-f", "--kill-child"];
        let Some(told) = inside(&half, &["tell"]) else { return false };
        assert_eq!(told, NOBODY);
        assert_eq!(inside(&half, &["look", &outside().to_string()]).as_deref(), Some("false"));
        true
    }

    /// There, this process seems to have been started a day later.
    pub(super) fn a_start_that_is_read_by_a_shifted_clock_proves_nothing() -> bool {
        let own = outside().to_string();
        let shifted = ["-T", "-f", "--boottime", "86400", "--kill-child"];
        let Some(gone) = inside(&shifted, &["look", &own]) else { return false };
        assert_eq!(gone, "false");
        let there = inside(&shifted, &["tell"]).expect("as before");
        assert_ne!(there.split(' ').nth(2), own.split(' ').nth(2), "another namespace: {there}");
        // Its number tells, whichever clock it was started by.
        assert_eq!(look(&there), "true");
        true
    }
}
