//! A machine ID and a fork: hyperf#3551, #7057; snowflaked PR#52. Worker processes of one host shared an ID, or deadlocked after
//! the fork.
//!
//! A program of its own, without a test harness: a process with other threads must not be forked like this.

#[cfg(not(unix))]
fn main() {
    println!("0 passed, 0 failed, 1 skipped");
}

#[cfg(unix)]
fn main() {
    test::a_child_makes_no_id_until_it_has_its_own();
    println!("1 passed, 0 failed");
}

#[cfg(unix)]
mod test {
    use lease_machines_id::{Fixed, Id64, Id128, IdError, Manager, Options, Reason};

    pub(super) fn a_child_makes_no_id_until_it_has_its_own() {
        let parent = Manager::start(Fixed(1), Options::new()).expect("it starts");
        let (counter, sortable) = (parent.counter::<Id64>(), parent.sortable::<Id128>());
        let before = counter.next().expect("held");
        match fork::fork().expect("a process more") {
            fork::Fork::Child => {
                let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
                    let forked = IdError::Disabled(Reason::Forked);
                    assert_eq!(counter.next(), Err(forked));
                    assert_eq!(counter.next_batch(10), Err(forked));
                    assert_eq!(sortable.next(), Err(forked));
                    assert_eq!(
                        parent.counter::<Id64>().next(),
                        Err(forked),
                        "one that is made here is no better"
                    );
                    assert_eq!(parent.machine_id(), None);
                    parent.report_lost();
                    parent.stop();

                    let own = Manager::start(Fixed(2), Options::new()).expect("it starts here, too");
                    let ids = own.counter::<Id64>();
                    let id = ids.next().expect("held");
                    assert_eq!(ids.layout().decode(id).machine_id, 2);
                    assert_eq!(counter.next(), Err(forked), "the old one stays as it is");
                    own.stop();
                }))
                .is_err();
                std::process::exit(i32::from(failed));
            }
            fork::Fork::Parent(child) => {
                let status = fork::waitpid(child).expect("its child");
                assert_eq!(status, 0, "the child failed, see above");
            }
        }
        // The parent is undisturbed.
        assert!(counter.next().expect("still held") > before);
        assert_eq!(parent.machine_id(), Some(1));
        parent.stop();
    }
}
