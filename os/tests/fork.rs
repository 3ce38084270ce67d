//! Generations and forks. A program of its own, without a test harness: a process with other threads must not be forked like
//! this.

#[cfg(not(unix))]
fn main() {
    println!("0 passed, 0 failed, 1 skipped");
}

#[cfg(unix)]
fn main() {
    test::a_child_is_another_generation_and_so_is_its_child();
    println!("1 passed, 0 failed");
}

#[cfg(unix)]
mod test {
    use lease_machines_os::Generation;

    pub(super) fn a_child_is_another_generation_and_so_is_its_child() {
        let parent = Generation::current();
        in_a_child(|| {
            assert!(!parent.is_current());
            let child = Generation::current();
            assert!(child.is_current());
            assert_ne!(child, parent);
            in_a_child(|| {
                // Without having asked for its own before.
                assert!(!child.is_current() && !parent.is_current());
                let grandchild = Generation::current();
                assert!(grandchild != child && grandchild != parent);
            });
            assert!(child.is_current() && !parent.is_current());
        });
        in_a_child(|| in_a_child(|| assert!(!parent.is_current())));
        assert!(parent.is_current());
        assert_eq!(parent, Generation::current());
    }

    fn in_a_child(work: impl FnOnce() + std::panic::UnwindSafe) {
        match fork::fork().expect("a process more") {
            fork::Fork::Child => {
                let failed = std::panic::catch_unwind(work).is_err();
                std::process::exit(i32::from(failed));
            }
            fork::Fork::Parent(child) => {
                let status = fork::waitpid(child).expect("its child");
                assert_eq!(status, 0, "the child failed, see above");
            }
        }
    }
}
