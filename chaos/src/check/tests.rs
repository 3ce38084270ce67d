//! The checker finds each kind of violation, and nothing in what is right. Times are in milliseconds.

mod time;
mod writes;

use super::{Kind, check};
use crate::history::{Answer, Ask, Call, History, Hold, Holder, How, Line, Vacated, Written};

const MS: u64 = 1_000_000;

/// A history of one resource that is written down call by call.
#[derive(Clone)]
struct Told(Vec<Line>);

impl Told {
    fn new() -> Self {
        let limits = Line::Limits {
            engine: "none".into(),
            seed: 0,
            timeout: 1_000 * MS,
            bound: 500 * MS,
            dense: true,
            takes_back: false,
            remembers_times: true,
            ends_by_leases: false,
        };
        Self(vec![limits])
    }

    fn call(mut self, began: u64, ended: u64, ask: Ask, answer: Answer) -> Self {
        self.0.push(Line::Call(Call {
            client: 1,
            resource: "job".into(),
            guarded: matches!(ask, Ask::Write { .. }).then_some(ended * MS),
            ask,
            began: began * MS,
            ended: ended * MS,
            answer,
        }));
        self
    }

    fn holds(mut self, holds: &[(u64, u64, &str)]) -> Self {
        let holds = holds
            .iter()
            .zip(0..)
            .map(|(&(token, owner, outcome), at)| Hold {
                token,
                owner,
                outcome: outcome.into(),
                from: at * 10,
                until: at * 10 + 10,
            })
            .collect();
        self.0.push(Line::Holds { resource: "job".into(), holds });
        self
    }

    fn written(mut self, written: &[(u64, u64, u64)]) -> Self {
        for &(n, token, id) in written {
            self.0.push(Line::Written(Written { resource: "job".into(), n, token, id }));
        }
        self
    }

    fn line(mut self, line: Line) -> Self {
        self.0.push(line);
        self
    }

    fn taking_back(mut self) -> Self {
        if let Some(Line::Limits { takes_back, .. }) = self.0.first_mut() {
            *takes_back = true;
        }
        self
    }

    fn found(&self) -> Vec<super::Violation> {
        check(&History { lines: self.0.clone() })
    }

    #[track_caller]
    fn is_right(&self) {
        assert_eq!(self.found(), []);
    }

    #[track_caller]
    fn breaks(&self, kind: Kind) {
        let found = self.found();
        assert!(found.iter().any(|violation| violation.kind == kind), "expected {kind:?}, found {found:#?}");
    }
}

fn acquire(owner: u64, ttl: u64) -> Ask {
    Ask::Acquire { owner, attempt: 1, again: false, ttl: ttl * MS }
}

fn reacquire(owner: u64, attempt: u64, ttl: u64) -> Ask {
    Ask::Acquire { owner, attempt, again: true, ttl: ttl * MS }
}

fn granted(token: u64, ttl: u64) -> Answer {
    Answer::Granted { token, ttl: ttl * MS }
}

fn renew(owner: u64, token: u64, ttl: u64) -> Ask {
    Ask::Renew { owner, token, ttl: ttl * MS, many: false }
}

fn renewed(ttl: u64) -> Answer {
    Answer::Renewed { ttl: ttl * MS }
}

fn release(owner: u64, token: u64) -> Ask {
    Ask::Release { owner, token }
}

fn write(owner: u64, token: u64, id: u64) -> Ask {
    Ask::Write { owner, token, strict: false, how: String::new(), id }
}

fn strict(owner: u64, token: u64, id: u64) -> Ask {
    Ask::Write { owner, token, strict: true, how: String::new(), id }
}

fn rejected(reason: &str) -> Answer {
    Answer::Rejected { reason: reason.into(), holder: None, vacated: None }
}

fn occupied(owner: u64, token: u64, held: u64, left: u64) -> Answer {
    let holder = Some(Holder { owner, token, held: held * MS, left: left * MS });
    Answer::Rejected { reason: "Occupied".into(), holder, vacated: None }
}

fn unknown() -> Answer {
    Answer::Unknown("no answer".into())
}

fn not_done() -> Answer {
    Answer::NotDone("busy".into())
}

/// One holds it from 0 to 100 and gives it back, another takes it.
fn two_holds() -> Told {
    Told::new()
        .call(0, 2, acquire(1, 100), granted(11, 100))
        .call(5, 6, acquire(2, 100), occupied(1, 11, 4, 96))
        .call(40, 41, renew(1, 11, 100), renewed(100))
        .call(80, 82, release(1, 11), Answer::Released)
        .call(90, 92, acquire(2, 100), granted(12, 100))
}

/// One on an engine whose own leases decide.
fn by_leases() -> Told {
    let mut told = Told::new();
    if let Some(Line::Limits { ends_by_leases, dense, .. }) = told.0.first_mut() {
        (*ends_by_leases, *dense) = (true, false);
    }
    told
}

#[test]
fn a_right_history_is_right() {
    two_holds().is_right();
    two_holds().holds(&[(11, 1, "Released"), (12, 2, "Held")]).is_right();
    two_holds().call(83, 84, release(1, 11), Answer::AlreadyReleased).is_right();
    // The old holder, late.
    let late = Answer::Rejected {
        reason: "WrongOwner".into(),
        holder: Some(Holder { owner: 2, token: 12, held: 8 * MS, left: 92 * MS }),
        vacated: None,
    };
    two_holds().call(99, 100, renew(1, 11, 100), late).is_right();
    // Between the two, nobody has it.
    let vacated = Some(Vacated { token: 11, owner: 1, how: How::Released });
    let vacant = Answer::Rejected { reason: "Vacant".into(), holder: None, vacated };
    two_holds().call(83, 85, renew(1, 11, 100), vacant).is_right();
    // By expiry.
    Told::new()
        .call(0, 2, acquire(1, 100), granted(11, 100))
        .call(101, 102, renew(1, 11, 100), rejected("Expired"))
        .call(103, 104, acquire(2, 100), granted(12, 100))
        .is_right();
    // By a revoke, of which the holder is told.
    let vacated = Some(Vacated { token: 11, owner: 1, how: How::Revoked });
    Told::new()
        .call(0, 2, acquire(1, 100), granted(11, 100))
        .call(10, 12, Ask::Revoke { expect: Some(11) }, Answer::Burnt { token: 12 })
        .call(13, 14, renew(1, 11, 100), Answer::Rejected { reason: "Vacant".into(), holder: None, vacated })
        .holds(&[(11, 1, "Revoked")])
        .is_right();
}

#[test]
fn what_is_unknown_may_have_happened_or_not() {
    let asked = Told::new().call(0, 50, acquire(1, 1000), unknown());
    // It did.
    asked.clone().call(60, 61, acquire(2, 100), occupied(1, 11, 30, 970)).is_right();
    asked
        .clone()
        .call(60, 61, reacquire(1, 2, 100), granted(12, 100))
        .holds(&[(11, 1, "Rotated"), (12, 1, "Held")])
        .is_right();
    // It did not.
    asked.clone().call(60, 61, acquire(2, 100), granted(11, 100)).is_right();
    // Or later.
    asked
        .clone()
        .call(60, 61, acquire(2, 100), granted(11, 100))
        .call(62, 63, release(2, 11), Answer::Released)
        .call(80, 81, acquire(3, 100), occupied(1, 12, 5, 995))
        .is_right();
    // But not one and then the other.
    asked
        .call(60, 61, acquire(2, 100), occupied(1, 11, 30, 970))
        .call(62, 63, acquire(2, 100), granted(12, 100))
        .breaks(Kind::TwoLive);
    // A release, in the same way.
    let released =
        Told::new().call(0, 1, acquire(1, 1000), granted(11, 1000)).call(5, 20, release(1, 11), unknown());
    released.clone().call(30, 31, acquire(2, 100), granted(12, 100)).is_right();
    released.clone().call(30, 31, acquire(2, 100), occupied(1, 11, 30, 970)).is_right();
    released
        .clone()
        .call(30, 31, acquire(2, 100), occupied(1, 11, 30, 970))
        .call(40, 41, acquire(2, 100), granted(12, 100))
        .is_right();
    released
        .call(30, 31, acquire(2, 100), granted(12, 100))
        .call(40, 41, renew(1, 11, 1000), renewed(1000))
        .breaks(Kind::OutOfOrder);
    // A store that withdraws by itself what nobody was left to hear of.
    let gone = Told::new()
        .call(0, 50, acquire(1, 1000), unknown())
        .call(60, 61, acquire(2, 100), granted(12, 100))
        .holds(&[(11, 1, "Withdrawn"), (12, 2, "Held")]);
    gone.breaks(Kind::Phantom);
    gone.taking_back().is_right();
    // A renewal.
    Told::new()
        .call(0, 1, acquire(1, 100), granted(11, 100))
        .call(50, 70, renew(1, 11, 100), unknown())
        .call(120, 121, acquire(2, 100), occupied(1, 11, 120, 40))
        .is_right();
}

#[test]
fn a_token_is_issued_once() {
    Told::new()
        .call(0, 1, acquire(1, 10), granted(11, 10))
        .call(20, 21, acquire(2, 10), granted(11, 10))
        .breaks(Kind::TokenRepeated);
}

#[test]
fn tokens_do_not_go_down() {
    Told::new()
        .call(0, 1, acquire(1, 10), granted(12, 10))
        .call(20, 21, acquire(2, 10), granted(11, 10))
        .breaks(Kind::OutOfOrder);
}

#[test]
fn two_are_not_granted_at_once() {
    Told::new()
        .call(0, 1, acquire(1, 100), granted(11, 100))
        .call(50, 51, acquire(2, 10), granted(12, 10))
        .breaks(Kind::TwoLive);
    // A renewal that was acknowledged counts.
    Told::new()
        .call(0, 1, acquire(1, 100), granted(11, 100))
        .call(50, 51, renew(1, 11, 100), renewed(100))
        .call(120, 121, acquire(2, 10), granted(12, 10))
        .breaks(Kind::TwoLive);
}

#[test]
fn holds_follow_each_other_by_the_stores_own_clock() {
    let mut told = two_holds().holds(&[(11, 1, "Released"), (12, 2, "Held")]);
    told.is_right();
    if let Some(Line::Holds { holds, .. }) = told.0.last_mut() {
        holds[0].until += 1;
    }
    told.breaks(Kind::TwoLive);
}

#[test]
fn what_was_acknowledged_is_remembered() {
    two_holds().holds(&[(12, 2, "Held")]).breaks(Kind::Lost);
    two_holds().holds(&[(11, 1, "Expired"), (12, 2, "Held")]).breaks(Kind::Lost);
}

#[test]
fn what_was_not_done_has_no_effect() {
    Told::new()
        .call(0, 1, acquire(1, 100), not_done())
        .call(5, 6, acquire(2, 100), occupied(1, 11, 5, 95))
        .breaks(Kind::Phantom);
    // Nobody heard of the one in between.
    Told::new()
        .call(0, 1, acquire(1, 10), granted(11, 10))
        .call(20, 21, acquire(2, 10), granted(13, 10))
        .holds(&[(11, 1, "Expired"), (13, 2, "Held")])
        .breaks(Kind::Phantom);
    Told::new()
        .call(0, 1, acquire(1, 100), granted(11, 100))
        .call(5, 6, release(1, 11), not_done())
        .call(10, 11, acquire(2, 100), granted(12, 100))
        .breaks(Kind::TwoLive);
    Told::new()
        .call(0, 1, acquire(1, 100), granted(11, 100))
        .call(50, 51, renew(1, 11, 100), not_done())
        .call(60, 61, acquire(2, 100), occupied(1, 11, 60, 90))
        .breaks(Kind::Phantom);
}

#[test]
fn the_reason_is_the_cores() {
    two_holds().call(99, 100, renew(1, 11, 100), rejected("StaleToken")).breaks(Kind::NotAsCore);
    two_holds().call(83, 84, release(1, 11), Answer::Released).breaks(Kind::NotAsCore);
    let withdrawn = Told::new().call(0, 1, Ask::Withdraw { owner: 1 }, rejected("Vacant")).call(
        5,
        6,
        acquire(1, 100),
        Answer::Superseded,
    );
    withdrawn.is_right();
    withdrawn.call(8, 9, reacquire(1, 2, 100), granted(11, 100)).breaks(Kind::NotAsCore);
    // An attempt that was made before gets what it got then, and nothing else.
    let twice = Told::new().call(0, 10, acquire(1, 100), granted(11, 100));
    twice.clone().call(2, 12, acquire(1, 100), granted(11, 100)).is_right();
    twice.call(2, 12, acquire(1, 100), granted(12, 100)).breaks(Kind::TwoLive);
    // Who vacated it, and how.
    let vacated = Some(Vacated { token: 11, owner: 1, how: How::Revoked });
    let vacant = Answer::Rejected { reason: "Vacant".into(), holder: None, vacated };
    two_holds().call(83, 85, renew(1, 11, 100), vacant).breaks(Kind::NotAsCore);
}

/// The second of two holds under the token after the next.
fn later(line: Line) -> Line {
    match line {
        Line::Call(mut call) if call.answer == granted(12, 100) => {
            call.answer = granted(13, 100);
            Line::Call(call)
        }
        line => line,
    }
}

#[test]
fn what_arrived_twice_counts_twice() {
    let told = Told::new()
        .call(0, 1, acquire(1, 100), granted(11, 100))
        .call(50, 60, renew(1, 11, 100), renewed(100))
        .call(100, 101, acquire(2, 100), occupied(1, 11, 100, 90));
    told.breaks(Kind::Phantom);
    told.line(Line::Doubled { from: 55 * MS, until: 91 * MS }).is_right();
    // The first time it was held, the second time it was free.
    let told = two_holds().call(80, 83, acquire(3, 5), occupied(1, 11, 80, 61)).holds(&[
        (11, 1, "Released"),
        (12, 3, "Expired"),
        (13, 2, "Held"),
    ]);
    let told = Told(told.0.into_iter().map(later).collect());
    told.breaks(Kind::Phantom);
    told.line(Line::Doubled { from: 81 * MS, until: 84 * MS }).is_right();
}

#[test]
fn a_store_with_nothing_wrong_does_not_refuse() {
    two_holds().call(99, 100, renew(2, 12, 100), Answer::Refused("new epoch".into())).breaks(Kind::Refused);
}
