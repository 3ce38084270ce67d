//! Guarded writes.

use super::*;

/// Two holders write, each under its own token.
fn two_writers() -> Told {
    two_holds().call(20, 22, write(1, 11, 1), Answer::Passed).call(93, 95, write(2, 12, 2), Answer::Passed)
}

#[test]
fn writes_pass_in_the_order_of_their_tokens() {
    two_writers().written(&[(1, 11, 1), (2, 12, 2)]).is_right();
    let stale = two_writers().call(97, 99, write(1, 11, 3), Answer::Stale { highest: 12 });
    stale.clone().written(&[(1, 11, 1), (2, 12, 2)]).is_right();
    // It was refused, and is there.
    stale.written(&[(1, 11, 1), (2, 12, 2), (3, 11, 3)]).breaks(Kind::FenceOrder);
    two_writers().call(97, 99, write(1, 11, 3), Answer::Passed).breaks(Kind::FenceOrder);
    // Kept out by a mark that was raised, though nothing was written under it.
    two_holds()
        .call(93, 95, Ask::Advance { owner: 2, token: 12 }, Answer::Passed)
        .call(97, 99, write(1, 11, 3), Answer::Passed)
        .written(&[(1, 11, 3)])
        .breaks(Kind::FenceOrder);
}

#[test]
fn writes_are_there_or_not_as_was_answered() {
    two_writers().written(&[(1, 11, 1)]).breaks(Kind::Lost);
    two_writers()
        .call(97, 99, write(2, 12, 3), not_done())
        .written(&[(1, 11, 1), (2, 12, 2), (3, 12, 3)])
        .breaks(Kind::Phantom);
    let unknown = two_writers().call(97, 99, write(2, 12, 3), unknown());
    unknown.clone().written(&[(1, 11, 1), (2, 12, 2), (3, 12, 3)]).is_right();
    unknown.clone().written(&[(1, 11, 1), (2, 12, 2)]).is_right();
    unknown.written(&[(1, 11, 1), (2, 12, 2), (3, 12, 3), (4, 12, 3)]).breaks(Kind::Phantom);
}

#[test]
fn guarded_transactions_follow_each_other() {
    // Both counted on from the same one.
    two_writers().written(&[(1, 11, 1), (1, 12, 2)]).breaks(Kind::FenceInterleaved);
    two_writers()
        .call(97, 99, write(2, 12, 3), Answer::Passed)
        .written(&[(1, 11, 1), (2, 12, 3), (3, 12, 2)])
        .breaks(Kind::OutOfOrder);
}

#[test]
fn a_strict_guard_knows_what_was_given_back() {
    two_holds().call(20, 22, strict(1, 11, 1), Answer::Passed).written(&[(1, 11, 1)]).is_right();
    two_holds().call(83, 84, strict(1, 11, 1), Answer::Lost).is_right();
    two_holds().call(95, 96, strict(1, 11, 1), Answer::Stale { highest: 12 }).is_right();
    two_holds().call(83, 84, strict(1, 11, 1), Answer::Passed).written(&[(1, 11, 1)]).breaks(Kind::FenceLate);
    two_holds().call(20, 22, strict(1, 11, 1), Answer::Lost).breaks(Kind::OutOfOrder);
    two_holds().call(20, 22, strict(3, 11, 1), Answer::Passed).written(&[(1, 11, 1)]).breaks(Kind::FenceLate);
}

#[test]
fn a_strict_guard_of_such_an_engine_knows_that_a_lease_has_run_out() {
    let held = by_leases().call(0, 10, acquire(1, 400), granted(7, 1_000));
    held.clone().call(1_100, 1_110, strict(1, 7, 1), Answer::Lost).is_right();
    held.call(500, 510, strict(1, 7, 1), Answer::Lost).breaks(Kind::OutOfOrder);
}
