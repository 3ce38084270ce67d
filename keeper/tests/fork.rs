//! A lease and a fork: Artemis PR#2632, filelock#634, redis-rb#1157. After a fork the renewal thread was gone, or the
//! child released the parent's lock.
//!
//! A program of its own, without a test harness: a process with other threads must not be forked like this.

#[cfg(unix)]
mod support;

#[cfg(not(unix))]
fn main() {
    println!("0 passed, 0 failed, 1 skipped");
}

#[cfg(unix)]
fn main() {
    test::a_child_holds_nothing_and_disturbs_nobody();
    println!("1 passed, 0 failed");
}

#[cfg(unix)]
mod test {
    use std::sync::Arc;

    use lease_machines_keeper::{
        HoldError, HoldOptions, LeaseState, LossReason, Scheduler, Verdict, hold, shutdown,
    };
    use lease_machines_store::{Store, WorkResult};
    use tokio::runtime::{Builder, Runtime};

    use crate::support::{Call, Toy, secs};

    pub(super) fn a_child_holds_nothing_and_disturbs_nobody() {
        let toy = Arc::new(Toy::new().0);
        let store: Arc<dyn Store> = Arc::<Toy>::clone(&toy);
        let scheduler = Scheduler::new(Arc::clone(&store));
        let parent = runtime();
        let (kept, dropped, released) = parent.block_on(async {
            let kept = hold(&store, "kept", HoldOptions::new()).await.expect("free");
            let dropped = hold(&store, "dropped", HoldOptions::new()).await.expect("free");
            let released = scheduler.hold("released", HoldOptions::new()).await.expect("free");
            (kept, dropped, released)
        });

        match fork::fork().expect("a process more") {
            fork::Fork::Child => {
                assert!(!kept.may_act());
                assert!(kept.remaining().is_zero());
                assert_eq!(kept.state(), LeaseState::Expired);
                assert!(matches!(kept.loss(), Some(LossReason::Forked)));
                kept.fenced();
                drop(dropped);
                let child = runtime();
                child.block_on(async {
                    assert!(matches!(kept.lost().await, LossReason::Forked));
                    let verdict = released.release(WorkResult::Good).await;
                    assert!(matches!(verdict, Verdict::Lost(LossReason::Forked)), "{verdict:?}");
                    let error = scheduler.hold("a", HoldOptions::new()).await.expect_err("the parent's");
                    assert!(matches!(error, HoldError::Forked), "{error}");
                    // It can take its own, with a scheduler of its own. (The store here is a copy in memory; a real one
                    // is opened anew.)
                    let own = hold(&store, "own", HoldOptions::new()).await.expect("free");
                    assert!(own.may_act());
                    assert!(own.release(WorkResult::Good).await.stood());
                    shutdown(secs(5)).await.expect("nothing of the parent's is waited for");
                });
                assert_eq!(toy.calls(Call::Release), 1, "its own, and none of the parent's");
                // Without taking apart what is the parent's.
                std::process::exit(0);
            }
            fork::Fork::Parent(child) => {
                let status = fork::waitpid(child).expect("a child");
                assert!(
                    fork::WIFEXITED(status) && fork::WEXITSTATUS(status) == 0,
                    "the child failed: {status}"
                );
            }
        }

        assert!(kept.may_act() && dropped.may_act() && released.may_act());
        parent.block_on(async {
            for guard in [kept, dropped, released] {
                assert!(guard.release(WorkResult::Good).await.stood());
            }
        });
    }

    fn runtime() -> Runtime {
        Builder::new_current_thread().enable_all().build().expect("a runtime")
    }
}
