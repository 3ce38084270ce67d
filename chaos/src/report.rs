//! What a run has come to, for people.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use crate::record::Counts;
use crate::run::Report;

const KINDS: [&str; 4] = ["decided", "not done", "unknown", "refused"];

/// One line while it goes on.
pub(crate) fn progress(engine: &str, counts: &Counts) -> String {
    let [decided, not_done, unknown, refused] = KINDS.map(|kind| total(counts, kind));
    let faults: u64 = counts.faults.values().sum();
    format!(
        "{engine}: {decided} decided, {not_done} not done, {unknown} unknown, {refused} refused, {faults} faults"
    )
}

fn total(counts: &Counts, kind: &str) -> u64 {
    counts.calls.values().filter_map(|of| of.get(kind)).sum()
}

/// What is told of a run, whatever it was about.
pub(crate) struct Outcome {
    pub(crate) text: String,
    pub(crate) is_good: bool,
    /// Above it among the results, and in a few words below that.
    pub(crate) title: String,
    pub(crate) told: String,
}

pub(crate) fn outcome(report: &Report) -> Outcome {
    let calls: u64 = KINDS.iter().map(|kind| total(&report.counts, kind)).sum();
    Outcome {
        text: text(report),
        is_good: report.violations.is_empty() && is_enough(report),
        title: report.version.clone(),
        told: format!("{calls} calls, {} violations", report.violations.len()),
    }
}

/// A run in which hardly anything happened proves nothing.
fn is_enough(report: &Report) -> bool {
    let faults: u64 = report.counts.faults.values().sum();
    total(&report.counts, "decided") >= 200
        && total(&report.counts, "unknown") >= 1
        && faults >= 3
        && report.counts.written >= 20
}

fn text(report: &Report) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "\n{} ({}), seed {}: {} clients for {} s on {} resources",
        report.engine,
        report.version,
        report.seed,
        report.clients,
        report.took.as_secs(),
        report.resources
    );
    let _ = writeln!(text, "  {:<29} {:>9} {:>9} {:>9} {:>9}", "", KINDS[0], KINDS[1], KINDS[2], KINDS[3]);
    for (ask, of) in &report.counts.calls {
        let [decided, not_done, unknown, refused] = KINDS.map(|kind| of.get(kind).copied().unwrap_or(0));
        let _ = writeln!(text, "  {ask:<29} {decided:>9} {not_done:>9} {unknown:>9} {refused:>9}");
    }
    let _ = writeln!(text, "  guarded writes committed: {}", report.counts.written);
    let faults: Vec<String> =
        report.counts.faults.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    let _ = writeln!(text, "  faults: {}", faults.join(", "));
    let _ = writeln!(text, "  violations: {}", report.violations.len());
    for violation in report.violations.iter().take(30) {
        let _ = writeln!(text, "    {violation}");
    }
    if !is_enough(report) {
        let _ = writeln!(text, "  too little happened for this to say anything");
    }
    if let Some(path) = &report.kept {
        let _ = writeln!(
            text,
            "  the history is in {}; to run the same again:\n    script/chaos --engine {} --seed {} --minutes {:.2}",
            path.display(),
            report.engine,
            report.seed,
            report.asked.as_secs_f64() / 60.0
        );
    }
    text
}

/// Which commit this is, as far as git knows.
pub(crate) fn commit() -> String {
    let said = std::process::Command::new("git").args(["describe", "--always", "--dirty"]).output();
    said.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}

/// Adds runs that took `asked` each to a file of results.
pub(crate) fn write(file: &Path, commit: &str, asked: Duration, outcomes: &[&Outcome]) -> Result<(), String> {
    let mut all = std::fs::read_to_string(file).unwrap_or_default();
    for Outcome { text, title, told, .. } in outcomes {
        let _ = writeln!(
            all,
            "\n## {title}, {:.0} minutes, commit {commit}\n\n{told}.\n\n```text\n{}```",
            asked.as_secs_f64() / 60.0,
            text.trim_start_matches('\n')
        );
    }
    std::fs::write(file, all).map_err(|error| format!("{}: {error}", file.display()))
}
