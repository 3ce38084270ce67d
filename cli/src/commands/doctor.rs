//! `lease doctor`.

use std::fmt::Write;
use std::time::{Duration, Instant};

use clap::Args;
use lease_machines_store::{Finding, Severity, Store};
use serde::Serialize;

use super::Outcome;
use crate::args::{Form, StoreOption};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{self, Ink, Style, visible};

/// How many questions are asked to time the answers.
const PROBES: u32 = 5;

/// A store that takes longer than this to answer a question leaves a short ttl no room for a second try.
const SLOW: Duration = Duration::from_millis(500);

/// Look for what weakens the promises of the store, and say how to mend it
///
/// Exit 1 where a promise does not hold (error), 0 where it is only weaker (warning), or worth knowing (note).
#[derive(Args, Debug)]
pub(crate) struct Doctor {
    #[command(flatten)]
    store: StoreOption,

    #[command(flatten)]
    form: Form,
}

#[derive(Serialize)]
struct Answer<'a> {
    ok: bool,
    findings: Vec<FindingView<'a>>,
}

#[derive(Serialize)]
struct FindingView<'a> {
    severity: &'static str,
    check: &'a str,
    found: &'a str,
    mend: Option<&'a str>,
}

impl Doctor {
    pub(crate) async fn run(self) -> Outcome {
        let chosen = self.store.resolve()?;
        let mut findings =
            vec![Finding::fine("program", concat!("lease ", env!("CARGO_PKG_VERSION"))), chosen.finding()];
        let store = chosen.open_existing()?;
        findings.extend(store.doctor().await.map_err(Failure::of_look)?);
        match answers(store.as_ref()).await {
            Ok(latency) => findings.push(latency),
            // What was found says why already.
            Err(_) if findings.iter().any(|finding| finding.severity == Severity::Error) => {}
            Err(failure) => return Err(failure),
        }
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        let ok = findings.iter().all(|finding| finding.severity < Severity::Error);
        if self.form.json {
            output::print_json(&Answer { ok, findings: findings.iter().map(view).collect() })?;
        } else {
            output::print(&for_people(&findings, Style::of_stdout()))?;
        }
        Ok(if ok { Exit::Ok } else { Exit::No })
    }
}

/// How long the store takes to answer a question that changes nothing.
async fn answers(store: &dyn Store) -> Result<Finding, Failure> {
    let mut slowest = Duration::ZERO;
    for _ in 0..PROBES {
        let asked = Instant::now();
        store.epoch().await.map_err(Failure::of_look)?;
        slowest = slowest.max(asked.elapsed());
    }
    let found = format!("the slowest of {PROBES} answers took {slowest:.1?}");
    Ok(if slowest < SLOW {
        Finding::fine("latency", found)
    } else {
        let mend = "choose ttls of at least twenty times that, or find out what holds the store up";
        Finding::new(Severity::Warning, "latency", found, mend)
    })
}

fn view(finding: &Finding) -> FindingView<'_> {
    let (severity, _) = words(finding.severity);
    FindingView { severity, check: finding.check, found: &finding.found, mend: finding.mend.as_deref() }
}

const fn words(severity: Severity) -> (&'static str, Ink) {
    match severity {
        Severity::Fine => ("fine", Ink::Good),
        Severity::Note => ("note", Ink::Plain),
        Severity::Warning => ("warning", Ink::Warning),
        _ => ("error", Ink::Bad),
    }
}

fn for_people(findings: &[Finding], style: Style) -> String {
    let width = findings.iter().map(|finding| finding.check.len()).max().unwrap_or(0);
    let mut text = String::new();
    for finding in findings {
        let (severity, ink) = words(finding.severity);
        let severity = style.paint(ink, format!("{severity:<7}"));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{severity}  {:width$}  {}", finding.check, visible(&finding.found));
        if let Some(mend) = &finding.mend {
            let _ = writeln!(text, "{:9}{:width$}  mend: {}", "", "", visible(mend));
        }
    }
    text
}
