//! What a run has come to, for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::MAKERS;
use super::run::{KILLED, OVERSLEPT, Report};
use crate::report::Outcome;

/// A run in which hardly anything happened proves nothing.
fn is_enough(report: &Report) -> bool {
    let count = |of: &BTreeMap<String, u64>, what: &str| of.get(what).copied().unwrap_or(0);
    report.findings.made >= 10_000
        && count(&report.faults, KILLED) >= 3
        && count(&report.faults, OVERSLEPT) >= 3
        && count(&report.findings.off, "Expired") >= 3
        && count(&report.findings.leases, "Expired") >= 3
}

fn list<T: std::fmt::Display>(counts: &BTreeMap<T, u64>) -> String {
    counts.iter().map(|(what, count)| format!("{what} {count}")).collect::<Vec<_>>().join(", ")
}

pub(crate) fn outcome(report: &Report) -> Outcome {
    let findings = &report.findings;
    let mut text = format!(
        "\n{} ({}), seed {}: {MAKERS} processes that make IDs for {} s\n",
        report.engine,
        report.version,
        report.seed,
        report.took.as_secs()
    );
    let _ = writeln!(text, "  IDs: {}", findings.made);
    let _ = writeln!(text, "  leases on slots: {}", list(&findings.leases));
    let _ = writeln!(text, "  began to make none: {}", list(&findings.off));
    let _ = writeln!(text, "  faults: {}", list(&report.faults));
    let violations: u64 = findings.violations.values().sum();
    let _ = match violations {
        0 => writeln!(text, "  violations: 0"),
        _ => writeln!(text, "  violations: {}", list(&findings.violations)),
    };
    for violation in &findings.shown {
        let _ = writeln!(text, "    {violation}");
    }
    if !is_enough(report) {
        let _ = writeln!(text, "  too little happened for this to say anything");
    }
    if let Some(folder) = &report.kept {
        let _ = writeln!(
            text,
            "  what each process wrote down is in {}; to run the same again:\n    script/chaos ids --engine {} --seed {} --minutes {:.2}",
            folder.display(),
            report.engine,
            report.seed,
            report.asked.as_secs_f64() / 60.0
        );
    }
    Outcome {
        text,
        is_good: violations == 0 && is_enough(report),
        title: format!("IDs on {}", report.version),
        told: format!("{} IDs, {violations} violations", findings.made),
    }
}
