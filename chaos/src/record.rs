//! Where everybody's lines go.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, Mutex};

use crate::history::{Call, Line, now};

/// Takes down what happens, in memory, or on standard output where this process is one of several.
#[derive(Clone)]
pub(crate) struct Recorder(Arc<Inner>);

struct Inner {
    /// `None` where lines are printed.
    lines: Option<Mutex<Vec<Line>>>,
    counts: Mutex<Counts>,
}

/// What a run has come to.
#[derive(Clone, Default, Debug)]
pub(crate) struct Counts {
    /// By what was asked, then by the kind of answer.
    pub(crate) calls: BTreeMap<String, BTreeMap<&'static str, u64>>,
    pub(crate) faults: BTreeMap<String, u64>,
    /// Guarded writes that were committed.
    pub(crate) written: u64,
}

impl Recorder {
    pub(crate) fn in_memory() -> Self {
        Self(Arc::new(Inner { lines: Some(Mutex::default()), counts: Mutex::default() }))
    }

    pub(crate) fn printing() -> Self {
        Self(Arc::new(Inner { lines: None, counts: Mutex::default() }))
    }

    /// That a call begins, for another process to know of it if this one ends.
    pub(crate) fn begun(&self, call: &Call) {
        if self.0.lines.is_none() {
            self.line(Line::Begun {
                client: call.client,
                resource: call.resource.clone(),
                ask: call.ask.clone(),
                began: call.began,
            });
        }
    }

    pub(crate) fn fault(&self, kind: &str) {
        self.line(Line::Fault { kind: kind.to_owned(), at: now() });
    }

    pub(crate) fn line(&self, line: Line) {
        {
            let mut counts = self.0.counts.lock().unwrap();
            match &line {
                Line::Call(call) => {
                    let kind = counts.calls.entry(call.ask.kind()).or_default();
                    *kind.entry(call.answer.kind()).or_default() += 1;
                }
                Line::Second(act) => {
                    let kind = counts.calls.entry(act.kind().to_owned()).or_default();
                    *kind.entry(act.said.kind()).or_default() += 1;
                }
                Line::Fault { kind, .. } => *counts.faults.entry(kind.clone()).or_default() += 1,
                Line::Written(_) => counts.written += 1,
                _ => {}
            }
        }
        match &self.0.lines {
            Some(lines) => lines.lock().unwrap().push(line),
            None => {
                let mut text = serde_json::to_vec(&line).unwrap_or_default();
                text.push(b'\n');
                // Whoever started this process has gone: so does this one.
                if std::io::stdout().write_all(&text).and_then(|()| std::io::stdout().flush()).is_err() {
                    std::process::exit(1);
                }
            }
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        self.0.counts.lock().unwrap().clone()
    }

    /// All lines so far.
    pub(crate) fn take(&self) -> Vec<Line> {
        self.0.lines.as_ref().map(|lines| std::mem::take(&mut *lines.lock().unwrap())).unwrap_or_default()
    }
}
