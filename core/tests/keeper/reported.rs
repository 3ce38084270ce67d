//! Faults that other systems had, as far as they concern the keeper alone.

use super::*;

/// cirello-io/dynamolock#446: the loss callback never came when the store swallowed every packet.
#[test]
fn a_store_that_swallows_every_packet_is_at_risk_then_lost_by_the_local_clock_alone() {
    let mut rig = Rig::working(plain());
    assert_eq!(rig.until(|command| *command == Warn).0, WARNING);
    let (at, command) = rig.until(|command| matches!(command, StopWork { .. }));
    assert_eq!((at, command), (OVER, StopWork { reason: StopReason::Lost(Loss::Unreachable) }));
}

/// kubernetes/kubernetes#23731: a holder that lost a race was never told.
#[test]
fn the_first_answer_that_shows_another_holder_ends_it_once() {
    let mut rig = Rig::working(plain());
    rig.at(DUE);
    let told = StopWork { reason: StopReason::Lost(Loss::Taken) };
    assert_eq!(rig.reject(secs(10), WrongOwner).iter().filter(|c| **c == told).count(), 1);
    assert!(!rig.reject(secs(10), WrongOwner).contains(&told));
    assert!(!rig.at(OVER).contains(&told));
}

/// kubernetes/kubernetes' pull request 139991 and cilium/cilium's 42920: released while the guarded work still ran.
#[test]
fn release_comes_after_the_work_and_work_that_hangs_is_stopped_before_the_deadline() {
    let mut rig = Rig::working(plain().with_stop_lead(secs(2)));
    rig.tell(secs(1), Event::StopRequested);
    // It hangs, and the store is away: nothing is released, and it is told again, in time.
    let (at, command) = rig.until(|c| matches!(c, Release { .. } | StopWork { .. }));
    assert_eq!((at, command), (OVER - secs(2), StopWork { reason: StopReason::Lost(Loss::Unreachable) }));
}

/// etcd-io/etcd#14857: the server granted another ttl than was asked for.
#[test]
fn the_granted_ttl_is_the_one_that_counts() {
    let (mut rig, _) = Rig::start(plain());
    rig.grant(secs(0), 1, secs(10));
    assert_eq!(rig.deadline(), millis(9_990));
    assert_eq!(rig.next_wait(), Some(millis(3_330)), "and it is renewed in proportion");
}

/// simstudioai/sim#6864: the answer was lost, so nobody owned the lock until its ttl.
#[test]
fn an_acquire_whose_reply_is_dropped_is_asked_again_at_once() {
    let (mut rig, _) = Rig::start(plain());
    rig.tell(secs(1), Event::NoAnswer { attempt: 1 });
    let (at, command) = rig.until(is_request);
    assert!(at <= secs(1) + millis(50) && matches!(command, Reacquire { .. }));
}

/// rust-lang/rust#87906: the clock stood still while the machine slept.
#[test]
fn on_resume_it_is_over_before_anyone_sees_it_confirmed() {
    let rig = Rig::working(plain());
    let asleep = rig.keeper.clone();
    assert!(!asleep.may_act(secs(3_600)), "whoever asks first, asks by the clock");
    assert_eq!(asleep.holder().map(|holder| holder.state_at(secs(3_600))), Some(HolderState::Expired));
}

/// redisson/redisson#7272: a renewal raced release and kept a released lock alive.
#[test]
fn no_renewal_is_sent_once_the_work_has_finished() {
    let mut rig = Rig::working(plain());
    rig.tell(secs(9), Event::WorkFinished);
    while let Some(wait) = rig.next_wait() {
        assert!(!rig.at(wait).iter().any(is_renewal));
    }
}
