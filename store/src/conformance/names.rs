//! Names are compared byte by byte.

use super::context::{Context, Outcome, name, told};
use super::subject::Need;
use super::{Case, block_on, case};

pub(super) const CASES: &[Case] = &[
    case("names that look alike are different resources", Need::Nothing, bytes),
    case("names of 255 bytes are kept whole", Need::Nothing, long),
    case("a prefix lists exactly the names that begin with it", Need::Nothing, prefix),
];

/// Kept apart by a store that neither folds, trims, cuts, normalizes nor matches patterns.
const ALIKE: [&str; 17] = [
    "a",
    "A",
    "a ",
    " a",
    "á",
    "a\u{301}",
    "Á",
    "ａ",
    "a\t",
    "a\n",
    "%",
    "_",
    "a%",
    "a_",
    "a'",
    "\u{10FFFF}",
    "a/b",
];

fn bytes(context: &Context<'_>) -> Outcome<()> {
    for (owner, resource) in (1..).zip(ALIKE) {
        let _ = context.granted(resource, owner).map_err(|error| format!("{resource:?}: {error}"))?;
    }
    for (owner, resource) in (1..).zip(ALIKE) {
        let seen = block_on(context.store().inspect(name(resource)?)).map_err(told)?;
        let held_by = seen.occupant.map(|occupant| occupant.owner.value());
        ensure!(held_by == Some(owner), "{resource:?} is held by {held_by:?}, expected {owner}");
    }
    let listed = block_on(context.store().list(String::new())).map_err(told)?;
    let found: Vec<String> = listed.iter().map(|seen| seen.resource.to_string()).collect();
    let mut expected = ALIKE.map(str::to_owned).to_vec();
    expected.sort_unstable();
    ensure!(found == expected, "listed {found:?}, expected byte order {expected:?}");
    Ok(())
}

fn long(context: &Context<'_>) -> Outcome<()> {
    let base = "é".repeat(127);
    let (one, two) = (format!("{base}1"), format!("{base}2"));
    let (first, second) = (context.granted(&one, 1)?, context.granted(&two, 2)?);
    for (resource, owner, grant) in [(&one, 1, first), (&two, 2, second)] {
        let seen = block_on(context.store().inspect(name(resource)?)).map_err(told)?;
        let held = seen.occupant.map(|occupant| (occupant.owner.value(), occupant.token));
        ensure!(held == Some((owner, grant.token)), "a name of 255 bytes is held by {held:?}");
    }
    Ok(())
}

fn prefix(context: &Context<'_>) -> Outcome<()> {
    for (owner, resource) in (1..).zip(["job", "job/1", "job/2", "job0", "Job/3", "jo", "x%y", "xzy"]) {
        let _ = context.granted(resource, owner)?;
    }
    for (prefix, expected) in [
        ("job/", vec!["job/1", "job/2"]),
        ("job", vec!["job", "job/1", "job/2", "job0"]),
        ("x%", vec!["x%y"]),
        ("nothing", vec![]),
    ] {
        let listed = block_on(context.store().list(prefix.to_owned())).map_err(told)?;
        let found: Vec<&str> = listed.iter().map(|seen| seen.resource.as_str()).collect();
        ensure!(found == expected, "{prefix:?} listed {found:?}, expected {expected:?}");
    }
    Ok(())
}
