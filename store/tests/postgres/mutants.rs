//! The functions, broken in one place at a time: what decides here is checked by something each time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use lease_machines::Rejection;
use lease_machines_store::conformance::{self, Fixture, Subject, block_on};
use lease_machines_store::{Renewed, StoreError, migration_sql};

use crate::blocked::{expiry_counts_from_after_the_wait, grant_lasts_from_after_the_wait};
use crate::conformance::InSchema;
use crate::help::{claim_for, granted, lease};
use crate::hostile::{withdrawal_during_the_wait_counts, zones_change_nothing};
use crate::servers::postgres::{Server, fresh_name};
use crate::slots::{
    expiry_of_a_slot_counts_from_after_the_wait, locked_slots_are_passed_over,
    withdrawal_comes_before_or_after_a_claim,
};

/// What is to notice it.
enum By {
    /// A case of the suite, on the clock of the test.
    Case(&'static str),
    /// A row that is locked for longer than the lease on it lasts.
    BlockedRenewal,
    BlockedGrant,
    /// A clock that is set back.
    ClockSetBack,
    /// Slots that somebody has locked.
    LockedSlots,
    /// A slot that is locked for longer than the lease on it lasts.
    BlockedSlot,
    /// A claim that is not committed yet when its owner withdraws.
    Withdrawal,
    /// A claim that waits for its owner's withdrawal, where the session's transactions are strict.
    Strict,
    /// Sessions in two time zones.
    Zones,
}

/// What is broken, as (found, put in its place), and what notices it.
type Mutant = (&'static str, &'static [(&'static str, &'static str)], By);

const MUTANTS: &[Mutant] = &[
    ("the clock of the transaction", &[("clock_timestamp()", "now()")], By::BlockedRenewal),
    ("the clock of the session's zone", &[("clock_timestamp()", "clock_timestamp()::timestamp")], By::Zones),
    (
        "a decision in any transaction",
        &[(
            "IF current_setting('transaction_isolation') <> 'read committed' THEN\n        RAISE EXCEPTION 'found",
            "IF false THEN\n        RAISE EXCEPTION 'found",
        )],
        By::Strict,
    ),
    (
        "the clock of a renewal read before the lock",
        &[
            ("    until bigint;\n", "    until bigint;\n    early bigint := {schema}.lease_clock_1();\n"),
            (
                "wall := {schema}.lease_clock_1();\n    at := greatest(wall, r.observed);\n    IF s.timeline = {schema}.lease_timeline_1() AND p_ttl > 0",
                "wall := early;\n    at := greatest(wall, r.observed);\n    IF s.timeline = {schema}.lease_timeline_1() AND p_ttl > 0",
            ),
        ],
        By::BlockedRenewal,
    ),
    (
        "the clock of a grant read before the lock",
        &[
            (
                "    withdrawn boolean;\n",
                "    withdrawn boolean;\n    early bigint := {schema}.lease_clock_1();\n",
            ),
            ("        {schema}.lease_clock_1()\n    INTO STRICT", "        early\n    INTO STRICT"),
        ],
        By::BlockedGrant,
    ),
    (
        "no clamp by what was observed",
        &[("at := greatest(wall, r.observed);", "at := wall;")],
        By::ClockSetBack,
    ),
    (
        "an expiry that is told and not written",
        &[("UPDATE {schema}.lease_row AS t SET observed = at WHERE t.name = p_name;", "")],
        By::ClockSetBack,
    ),
    (
        "no look at the epoch before a grant",
        &[("ELSIF p_epoch <> here THEN", "ELSIF false THEN")],
        By::Case("a request for another epoch changes nothing, and says so"),
    ),
    (
        "no look at a lease's epoch",
        &[(" AND epoch = here AND (p_epoch IS NULL OR p_epoch = here)", "")],
        By::Case("a lease of an old epoch is neither released nor echoed"),
    ),
    (
        "a lease that is over at its deadline goes on",
        &[("AND NOT retained AND at < expires_at", "AND NOT retained AND at <= expires_at")],
        By::ClockSetBack,
    ),
    (
        "a lease keeps others out at its deadline",
        &[(
            "r.token IS NOT NULL AND at < r.expires_at AND NOT (p_again",
            "r.token IS NOT NULL AND at <= r.expires_at AND NOT (p_again",
        )],
        By::Case("1 ms, 500 ms and 1.5 s are exact"),
    ),
    (
        "another's live lease is taken over",
        &[("NOT (p_again AND r.owner = p_owner AND NOT r.retained)", "NOT (p_again AND NOT r.retained)")],
        By::Case("random operations are decided as the core decides"),
    ),
    (
        "the last token is not written",
        &[("last_issued = last + 1, observed = at, owner", "observed = at, owner")],
        By::Case("tokens rise across release, expiry and rotation"),
    ),
    (
        "the last attempt counts for nothing",
        &[("r.owner = p_owner AND p_attempt <= r.attempt", "false")],
        By::Case("an echo is answered with what remains of the grant"),
    ),
    (
        "the same attempt is decided twice",
        &[("r.owner = p_owner AND p_attempt <= r.attempt", "r.owner = p_owner AND p_attempt < r.attempt")],
        By::Case("a doubled acquire is one grant"),
    ),
    (
        "a renewal shortens",
        &[("until := greatest(at + p_ttl, r.expires_at);", "until := at + p_ttl;")],
        By::Case("a renewal extends and never shortens"),
    ),
    (
        "the ttl of a grant is doubled",
        &[("expires_at = at + p_ttl", "expires_at = at + 2 * p_ttl")],
        By::Case("a lease keeps others out until its deadline and not longer"),
    ),
    (
        "nobody looks whose lease it is",
        &[("token = p_token AND owner = p_owner AND epoch", "token = p_token AND epoch")],
        By::Case("only the owner, under its token, renews and releases"),
    ),
    (
        "nobody looks at the token",
        &[("token = p_token AND owner = p_owner AND epoch", "owner = p_owner AND epoch")],
        By::Case("only the owner, under its token, renews and releases"),
    ),
    (
        "what is held back is renewed",
        &[("AND NOT retained AND at < expires_at", "AND at < expires_at")],
        By::Case("at_least holds the resource back, from its grant on"),
    ),
    (
        "a withdrawal is forgotten",
        &[("ELSIF withdrawn THEN", "ELSIF false THEN")],
        By::Case("a request that comes after its owner withdrew comes to nothing"),
    ),
    (
        "a once-key counts for nothing",
        &[("ELSIF answer.end_token IS NOT NULL THEN", "ELSIF false THEN")],
        By::Case("work done under a once-key is not done again"),
    ),
    (
        "a revoke breaks whatever is there",
        &[("ELSIF p_expect <> r.token THEN", "ELSIF false THEN")],
        By::Case("a revoke breaks the lease that was meant, and no other"),
    ),
    (
        "a revoke burns nothing",
        &[("last_issued = coalesce(burnt, last), observed", "observed")],
        By::Case("a revoke burns a token"),
    ),
    (
        "a prune raises no floor",
        &[("SET floor = greatest(f.floor, coalesce(greatest_token, 0))", "SET floor = f.floor")],
        By::Case("names used again after a prune get greater tokens"),
    ),
    (
        "grants begin at once in a new epoch",
        &[("ELSIF at < grants_from THEN", "ELSIF false THEN")],
        By::Case("where old holders may be at work, nothing is granted"),
    ),
    (
        "a lost history goes unnoticed",
        &[("AND p_token > greatest(r.last_issued, s.floor)", "AND false")],
        By::Case("a token that was never issued shows a lost history"),
    ),
    (
        "a second release is not known for one",
        &[("r.vacated_owner = p_owner AND r.vacated_how = 1 THEN", "false THEN")],
        By::Case("a second release of a token is already released"),
    ),
    (
        "many are renewed whosever they are",
        &[(
            "t.token, t.owner, t.epoch, t.expires_at, t.retained, a.token, a.owner, a.epoch, s.epoch,",
            "t.token, t.owner, t.epoch, t.expires_at, t.retained, t.token, t.owner, a.epoch, s.epoch,",
        )],
        By::Case("many are renewed in one request, each by itself"),
    ),
    (
        "a row is decided upon without its lock",
        &[("WHERE t.name = p_name FOR UPDATE;", "WHERE t.name = p_name;")],
        By::Case("16 clients on one resource see one history"),
    ),
    (
        "a withdrawal from a pool is forgotten",
        &[("w.name = {schema}.lease_withdrawn_as_1(p_pool) AND w.owner = p_owner)", "false)")],
        By::Case("a claim that comes after its owner withdrew comes to nothing"),
    ),
    (
        "a withdrawal does not wait for claims that are under way",
        &[("LOCK TABLE {schema}.lease_pool IN ROW SHARE MODE;", "")],
        By::Withdrawal,
    ),
    (
        "the last attempt of a claim counts for nothing",
        &[("ELSIF p_attempt <= r.attempt THEN", "ELSIF false THEN")],
        By::Case("an echo of a claim is answered with its slot"),
    ),
    (
        "doubles of a claim take slots of their own",
        &[(
            "CREATE UNIQUE INDEX IF NOT EXISTS lease_slot_asker",
            "CREATE INDEX IF NOT EXISTS lease_slot_asker",
        )],
        By::Case("8 doubles of one claim at once take one slot"),
    ),
    (
        "an owner's former slot goes on remembering it",
        &[("SET asker = NULL, attempt = NULL WHERE", "SET attempt = t.attempt WHERE")],
        By::Case("an owner holds one slot of a pool"),
    ),
    (
        "an owner has a slot for each attempt",
        &[(
            "ELSIF r.token IS NOT NULL AND at < r.free_from THEN\n        taken",
            "ELSIF false THEN\n        taken",
        )],
        By::Case("an owner holds one slot of a pool"),
    ),
    (
        "a claim for more slots than there are is served",
        &[("p_size > o_size THEN", "false THEN")],
        By::Case("a claim that names more slots than the pool has is refused"),
    ),
    (
        "the highest of the never used slots comes first",
        &[("ORDER BY t.slot LIMIT 1 FOR UPDATE", "ORDER BY t.slot DESC LIMIT 1 FOR UPDATE")],
        By::Case("never used slots come first, then the one free for longest"),
    ),
    (
        "of free slots the lowest comes first",
        &[("ORDER BY t.free_from NULLS FIRST, t.slot LIMIT 1", "ORDER BY t.slot LIMIT 1")],
        By::Case("never used slots come first, then the one free for longest"),
    ),
    (
        "an identity gets any slot",
        &[("IF p_identity IS NOT NULL THEN", "IF false THEN")],
        By::Case("an identity returns to the slot that it held last"),
    ),
    (
        "a free slot needs no rest",
        &[(
            "WHERE t.pool = p_pool AND t.free_from <= rested",
            "WHERE t.pool = p_pool AND t.free_from <= now",
        )],
        By::Case("a freed slot cools down before another has it"),
    ),
    (
        "an exclusive identity takes a closed slot",
        &[("AND t.free_from > now AND t.token IS NOT NULL", "AND t.free_from > now")],
        By::Case("a revoked slot is closed until its lease would have ended"),
    ),
    (
        "a proof counts whatever token it names",
        &[("AND t.token = p_gone_token AND t.identity", "AND t.identity")],
        By::Case("a live slot is taken over by an exclusive identity or a proof alone"),
    ),
    (
        "a proof counts for strangers",
        &[("AND t.token = p_gone_token AND t.identity = p_identity", "AND t.token = p_gone_token")],
        By::Case("a live slot is taken over by an exclusive identity or a proof alone"),
    ),
    (
        "a revoke frees its slot at once",
        &[(
            "last_issued = coalesce(burnt, last), observed = at, token = NULL, label = NULL, window_after",
            "last_issued = coalesce(burnt, last), observed = at, token = NULL, free_from = at, label = NULL, window_after",
        )],
        By::Case("a revoked slot is closed until its lease would have ended"),
    ),
    (
        "a grant leaves the mark where it was",
        &[(
            "mark = reserved, window_after = begins,\n                place",
            "window_after = begins,\n                place",
        )],
        By::Case("ID time is reserved above all that others may have used"),
    ),
    (
        "a renewal leaves the mark where it was",
        &[("mark = reserved,\n            window_after = begins\n", "window_after = begins\n")],
        By::Case("random operations on a pool are decided as the core decides"),
    ),
    (
        "a reclaim begins another window",
        &[(
            "                begins := r.window_after;\n            END IF;",
            "                NULL;\n            END IF;",
        )],
        By::Case("random operations on a pool are decided as the core decides"),
    ),
    (
        "a release gives back what others have used",
        &[("greatest(p_last_used, coalesce(r.window_after, r.mark))", "p_last_used")],
        By::Case("a release gives back what was not used, and no more"),
    ),
    (
        "a slot is granted without any ID time",
        &[("AND (until IS NULL OR t.mark < until)", "")],
        By::Case("a claim for no more time than is reserved already gets another slot"),
    ),
    (
        "a new epoch goes on in the old one's ID time",
        &[("stamps_above = greatest(t.stamps_above, wall + p_max_ttl),", "")],
        By::Case("a new epoch gives out no stamp of the old one"),
    ),
    (
        "slots outlive their epoch",
        &[(
            "r.token, r.owner, r.epoch, r.free_from, false,",
            "r.token, r.owner, s.epoch, r.free_from, false,",
        )],
        By::Case("a new epoch loses every slot"),
    ),
    (
        "a pool shrinks under its holders",
        &[("AND t.free_from > greatest(now, t.observed)\n    ORDER BY", "AND false\n    ORDER BY")],
        By::Case("a pool grows, and shrinks where nobody holds what is cut off"),
    ),
    (
        "slots that were cut off are answered for",
        &[(
            "AND EXISTS (SELECT FROM {schema}.lease_pool AS p WHERE p.pool = t.pool AND t.slot < p.size)",
            "",
        )],
        By::Case("random operations on a pool are decided as the core decides"),
    ),
    (
        "two claims decide on one slot",
        &[("LIMIT 1 FOR UPDATE SKIP LOCKED;", "LIMIT 1;")],
        By::Case("16 claims at once get 16 slots"),
    ),
    (
        "a pool that is locked is taken for a full one",
        &[("code := 'busy';", "code := 'no slot';")],
        By::LockedSlots,
    ),
    (
        "a claim waits for slots that are locked",
        &[("LIMIT 1 FOR UPDATE SKIP LOCKED;", "LIMIT 1 FOR UPDATE NOWAIT;")],
        By::LockedSlots,
    ),
    (
        "the clock of a slot's renewal read before its lock",
        &[
            ("    ends bigint;\n", "    ends bigint;\n    early bigint := {schema}.lease_clock_1();\n"),
            (
                "o_wall := {schema}.lease_clock_1();\n    at := greatest(o_wall, r.observed);\n    IF s.timeline = {schema}.lease_timeline_1() AND p_ttl > 0",
                "o_wall := early;\n    at := greatest(o_wall, r.observed);\n    IF s.timeline = {schema}.lease_timeline_1() AND p_ttl > 0",
            ),
        ],
        By::BlockedSlot,
    ),
];

/// A schema with this in place of that; nothing where that is no longer there.
fn set_up(changes: &[(&str, &str)]) -> String {
    let server = Server::shared();
    let schema = fresh_name();
    let url = server.url(&schema);
    let quoted = format!("\"{schema}\"");
    let mut script = migration_sql(&url).unwrap();
    for (found, instead) in changes {
        let found = found.replace("{schema}", &quoted);
        assert!(script.contains(&found), "the functions have no {found:?}: adapt the mutant");
        script = script.replace(&found, &instead.replace("{schema}", &quoted));
    }
    server.sql(&script);
    schema
}

struct Mutated(&'static [(&'static str, &'static str)]);

impl Subject for Mutated {
    fn name(&self) -> String {
        "broken functions".to_owned()
    }

    fn fresh(&self) -> Result<Box<dyn Fixture>, StoreError> {
        InSchema::on(set_up(self.0), true)
    }
}

/// A lease that was once told to be over stays so when the server's clock is set back.
fn a_clock_that_is_set_back_revives_nothing_in(changes: &[(&str, &str)]) {
    let schema = set_up(changes);
    let fixture = InSchema::on(schema.clone(), true).unwrap();
    let (store, ttl) = (fixture.store(), Duration::from_secs(60));
    let held = lease("job", 1, granted(store.as_ref(), claim_for("job", 1, ttl)));
    let expired = |when: &str| {
        let answer = block_on(store.renew(held.clone(), ttl)).unwrap();
        let Renewed::Rejected(why) = answer else { panic!("renewed {when}: {answer:?}") };
        assert_eq!(why.reason, Rejection::Expired, "{when}");
    };
    fixture.pass(ttl);
    expired("at the deadline");
    Server::shared().sql(&format!("UPDATE {schema}.test_clock SET at = at - 30000000"));
    expired("after the clock was set back");
}

#[test]
fn a_clock_that_is_set_back_revives_nothing() {
    a_clock_that_is_set_back_revives_nothing_in(&[]);
}

#[test]
fn every_mutant_is_caught() {
    let mut survivors = Vec::new();
    for (what, changes, by) in MUTANTS {
        // Only by what the check is about: a server that was too slow has noticed nothing.
        let caught = |says: &str, work: &dyn Fn()| {
            let Err(panic) = catch_unwind(AssertUnwindSafe(work)) else { return false };
            let said = panic.downcast_ref::<String>().expect("a check says what it found");
            assert!(said.contains(says), "{what}: {said}");
            true
        };
        let look = || match by {
            By::Case(case) => {
                let report = conformance::run_only(&Mutated(changes), &[case]);
                assert_eq!(report.ran + report.failed.len(), 1, "{what}: {report}");
                report.failed.first().is_some_and(|failed| failed.case == *case)
            }
            By::BlockedRenewal => {
                caught("a lease was revived", &|| expiry_counts_from_after_the_wait(|| set_up(changes)))
            }
            By::BlockedGrant => caught("Occupied", &|| grant_lasts_from_after_the_wait(|| set_up(changes))),
            By::LockedSlots => caught("", &|| locked_slots_are_passed_over(|| set_up(changes))),
            By::BlockedSlot => caught("a lease was revived", &|| {
                expiry_of_a_slot_counts_from_after_the_wait(|| set_up(changes))
            }),
            By::Withdrawal => caught("a withdrawn owner holds a slot", &|| {
                withdrawal_comes_before_or_after_a_claim(|| set_up(changes))
            }),
            By::Strict => caught("granted to an owner that has withdrawn", &|| {
                withdrawal_during_the_wait_counts(0, || set_up(changes))
            }),
            By::Zones => caught("free at once", &|| zones_change_nothing(|| set_up(changes))),
            By::ClockSetBack => caught("renewed ", &|| a_clock_that_is_set_back_revives_nothing_in(changes)),
        };
        // What shows only in time may not show while the machine is busy with other tests.
        if !(0..3).any(|_| look()) {
            survivors.push(what);
        }
    }
    assert!(survivors.is_empty(), "nothing noticed: {survivors:?}");
}
