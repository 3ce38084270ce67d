//! What the model checker finds in each world.

use stateright::Checker;

use super::*;

/// Two holders that each ask twice and write once, and a network that doubles one message.
fn fenced() -> Story {
    Story {
        fenced: true,
        end: 3,
        requests: 2,
        writes: 1,
        doubles: 1,
        revokes: 0,
        clock_step: 0,
        policy: ClockPolicy::Reject,
    }
}

/// Explores the whole of it, prints the number of states, and insists on it: a model that has silently become smaller
/// proves less.
#[track_caller]
fn explore(name: &str, story: Story, different_states: usize) -> impl Checker<Story> {
    let checker = story.checker().spawn_bfs().join();
    let (all, different, depth) = (checker.state_count(), checker.unique_state_count(), checker.max_depth());
    println!("{name}: {all} states, {different} of them different, to depth {depth}");
    assert_eq!(different, different_states, "{name}");
    checker
}

#[test]
fn with_the_fence_no_schedule_lets_an_older_write_follow_a_newer_one() {
    explore("fenced", fenced(), 1_534_884).assert_properties();
}

#[test]
fn nor_where_each_writes_twice() {
    explore("two writes each", Story { writes: 2, doubles: 0, ..fenced() }, 473_706).assert_properties();
}

#[test]
fn nor_where_an_operator_revokes_the_lease() {
    explore("revoked", Story { revokes: 1, doubles: 0, ..fenced() }, 1_309_978).assert_properties();
}

/// A forward step lets the next holder in early, so that two may act at once: that is found, too. Only the fence orders
/// their writes.
#[test]
fn nor_where_the_authoritys_clock_steps_forward() {
    let checker = explore("a step forward", Story { clock_step: 2, doubles: 0, ..fenced() }, 1_054_910);
    checker.assert_properties();
    checker.assert_any_discovery(TWO_AT_ONCE);
}

#[test]
fn nor_where_the_authoritys_clock_steps_back_and_is_rejected() {
    explore("a step back, Reject", Story { clock_step: -2, doubles: 0, ..fenced() }, 524_762)
        .assert_properties();
}

#[test]
fn nor_where_the_authoritys_clock_steps_back_and_is_clamped() {
    let story = Story { clock_step: -2, doubles: 0, policy: ClockPolicy::Clamp, ..fenced() };
    explore("a step back, Clamp", story, 521_534).assert_properties();
}

/// The whole model without the fence: the violation is found, among much else.
#[test]
fn without_the_fence_an_older_write_does_follow_a_newer_one() {
    let checker = explore("without the fence", Story { fenced: false, ..fenced() }, 1_534_884);
    let path = checker.discovery(NO_OLDER_WRITE).expect("the paused worker");
    let Some(Step::Deliver(Message::Write { token: older, .. })) = path.into_actions().pop() else {
        panic!("it does not end with a write that arrives");
    };
    assert!(older > 0);
}

/// The smallest model that has the fault in it, so that the shortest way to it is the story that is told everywhere:
/// a worker asks, is told yes, oversleeps, and writes beside its successor.
#[test]
fn without_the_fence_the_paused_worker_is_found() {
    let story = Story { fenced: false, requests: 1, doubles: 0, ..fenced() };
    let checker = explore("without the fence, the smallest", story, 1_424);
    let path = checker.discovery(NO_OLDER_WRITE).expect("the paused worker");
    let steps = path.into_vec();
    println!("the paused worker:");
    steps.iter().filter_map(|(_, step)| *step).for_each(|step| println!("  {step:?}"));

    let at = |wanted: &dyn Fn(Step) -> bool| {
        steps.iter().position(|(_, step)| step.is_some_and(wanted)).expect("a step of the story")
    };
    // The last thing that happens is that the paused worker's write arrives.
    let (world, Some(Step::Deliver(Message::Write { from: paused, token: old }))) = &steps[steps.len() - 2]
    else {
        panic!("it does not end with a write that arrives");
    };
    let (paused, old) = (*paused, *old);
    let successor = 1 - paused;
    // By then its lease is over by its own clock, and it would say so if it were asked. It is not asked.
    assert!(!world.holders[paused].may_act(world.now));
    assert!(world.holders[paused].holder.as_ref().is_some_and(|holder| holder.token() == token(old)));

    // It had asked before it wrote, and was told yes, rightly.
    let asked = at(&|step| step == Step::Write { from: paused });
    assert!(steps[asked].0.holders[paused].may_act(steps[asked].0.now));
    // Then its whole ttl went by, and it did nothing in between.
    assert!(world.now >= TTL);
    assert!(steps[asked + 1..steps.len() - 2].iter().all(|(_, step)| match step {
        Some(Step::Send { from, .. } | Step::Write { from }) => *from == successor,
        _ => true,
    }));
    // The successor was let in, rightly, under a newer token, and its write arrived first.
    let (arrived, new) = steps
        .iter()
        .enumerate()
        .find_map(|(index, (_, step))| match step {
            Some(Step::Deliver(Message::Write { from, token })) if *from == successor => {
                Some((index, *token))
            }
            _ => None,
        })
        .expect("the successor wrote");
    assert!(new > old && asked < arrived && arrived < steps.len() - 2);
    let let_in = at(&|step| step == Step::Write { from: successor });
    assert!(!steps[let_in].0.two_at_once && steps[let_in].0.holders[successor].may_act(steps[let_in].0.now));
}
