//! A machine that has too much to do, when the store does not answer.

use std::time::Duration;

use libtest_mimic::Trial;

use crate::container::contained;
use crate::support::actor::{Diary, actor};
use crate::support::needs::Need::PidNamespace;
use crate::support::{Lab, ms, secs, until};
use crate::trial_alone;

pub(crate) fn trials() -> Vec<Trial> {
    let namespace = &[PidNamespace];
    vec![
        trial_alone("scenario_24_two_thousand_processes", namespace, scenario_24_two_thousand_processes),
        trial_alone("scenario_24_two_hundred_busy_loops", namespace, scenario_24_two_hundred_busy_loops),
        trial_alone("scenario_24_chain_of_forks", namespace, scenario_24_chain_of_forks),
    ]
}

/// From KILL to the deadline, at this ttl.
const MARGIN: Duration = ms(500);

/// Runs a storm in a pid namespace of its own, takes the store away, and says how long before the deadline each of the
/// diaries ends.
fn storm(lab: &Lab, command: &[String], diaries: &[&str]) -> Vec<Duration> {
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let mut run = contained(lab, "--ttl 10s", &command);
    let read = |name: &&str| Diary::read(&lab.path(name));
    until("the storm", secs(60), || {
        assert_eq!(run.ended(), None, "before the store was taken away: {}", run.said());
        diaries.iter().map(read).collect::<Option<Vec<_>>>()
    });
    let hole = lab.black_hole();
    let deadline = lab.deadline();
    assert_eq!(run.code(), 79, "{}", run.said());
    drop(hole);
    lab.until_all_gone(secs(2));
    let early: Vec<Duration> = diaries
        .iter()
        .filter_map(read)
        .map(|diary| {
            let early = deadline.checked_sub(diary.last_act);
            early.unwrap_or_else(|| panic!("{:?} late", diary.last_act - deadline))
        })
        .collect();
    println!(
        "the last act came {:?} before the deadline, for a KILL planned {MARGIN:?} before it",
        early.iter().min()
    );
    early
}

fn scenario_24_two_thousand_processes() {
    let lab = Lab::new();
    let early = storm(&lab, &actor(&["crowd", lab.folder().to_str().unwrap(), "2000"]), &["crowd"]);
    assert!(early[0] < secs(4), "it ended long before it had to");
}

fn scenario_24_two_hundred_busy_loops() {
    let lab = Lab::new();
    let names: Vec<String> = (0..200).map(|number| format!("spin-{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let early = storm(&lab, &actor(&["spinners", lab.folder().to_str().unwrap(), "200"]), &names);
    assert_eq!(early.len(), 200);
}

fn scenario_24_chain_of_forks() {
    let lab = Lab::new();
    let early = storm(&lab, &actor(&["chain", lab.path("chain").to_str().unwrap()]), &["chain"]);
    assert!(early[0] > ms(0));
}
