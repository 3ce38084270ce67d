//! The functions, broken in one place at a time: what decides here is checked by something each time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use lease_machines::Rejection;
use lease_machines_store::conformance::{self, Fixture, Subject, block_on};
use lease_machines_store::{Renewed, StoreError, migration_sql};

use crate::blocked::{expiry_counts_from_after_the_wait, grant_lasts_from_after_the_wait};
use crate::conformance::InSchema;
use crate::help::{claim_for, granted, lease};
use crate::servers::postgres::{Server, fresh_name};

/// What is to notice it.
enum By {
    /// A case of the suite, on the clock of the test.
    Case(&'static str),
    /// A row that is locked for longer than the lease on it lasts.
    BlockedRenewal,
    BlockedGrant,
    /// A clock that is set back.
    ClockSetBack,
}

/// What is broken, as (found, put in its place), and what notices it.
type Mutant = (&'static str, &'static [(&'static str, &'static str)], By);

const MUTANTS: &[Mutant] = &[
    ("the clock of the transaction", &[("clock_timestamp()", "now()")], By::BlockedRenewal),
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
        let seen = match by {
            By::Case(case) => {
                let report = conformance::run_only(&Mutated(changes), &[case]);
                assert_eq!(report.ran + report.failed.len(), 1, "{what}: {report}");
                report.failed.first().is_some_and(|failed| failed.case == *case)
            }
            By::BlockedRenewal => {
                caught("a lease was revived", &|| expiry_counts_from_after_the_wait(|| set_up(changes)))
            }
            By::BlockedGrant => caught("Occupied", &|| grant_lasts_from_after_the_wait(|| set_up(changes))),
            By::ClockSetBack => caught("renewed ", &|| a_clock_that_is_set_back_revives_nothing_in(changes)),
        };
        if !seen {
            survivors.push(what);
        }
    }
    assert!(survivors.is_empty(), "nothing noticed: {survivors:?}");
}
