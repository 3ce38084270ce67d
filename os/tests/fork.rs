//! Generations and forks. A program of its own, without a test harness: a process with other threads must not be forked like
//! this.

#[cfg(not(unix))]
fn main() {
    println!("0 passed, 0 failed, 1 skipped");
}

#[cfg(unix)]
fn main() {
    test::a_child_is_another_generation_and_so_is_its_child();
    test::each_process_makes_its_own_and_drops_no_others();
    println!("2 passed, 0 failed");
}

#[cfg(unix)]
mod test {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicU32, Ordering};

    use lease_machines_os::{Generation, PerProcess};

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

    pub(super) fn each_process_makes_its_own_and_drops_no_others() {
        static DROPPED: AtomicU32 = AtomicU32::new(0);
        static OWN: PerProcess<Own> = PerProcess::new();

        struct Own(u32);
        impl Drop for Own {
            fn drop(&mut self) {
                DROPPED.fetch_add(1, Ordering::SeqCst);
            }
        }
        fn number() -> u32 {
            OWN.get_or_try_init(|| Ok::<_, Infallible>(Own(std::process::id()))).map_or(0, |own| own.0)
        }

        assert!(OWN.get_or_try_init(|| Err("none")).is_err() && OWN.get().is_none());
        let mine = number();
        in_a_child(|| {
            assert!(OWN.get().is_none());
            in_a_child(|| assert_eq!(number(), std::process::id()));
            assert_ne!(number(), mine);
            assert_eq!(number(), std::process::id());
        });
        let at_once: Vec<_> = (0..8).map(|_| std::thread::spawn(number)).collect();
        at_once.into_iter().for_each(|thread| assert_eq!(thread.join().expect("no panic"), mine));
        assert_eq!((number(), DROPPED.load(Ordering::SeqCst)), (mine, 0));
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
