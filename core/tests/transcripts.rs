//! Transcripts: text files of `operation → decision` that a person can audit without reading any Rust.
//!
//! Each file in `transcripts/` tells one story. A line is a remark (`#`), blank, or an operation and the decision that it
//! led to. After a deliberate change, `LEASE_MACHINES_BLESS=1 cargo test -p lease-machines --test transcripts` writes the
//! decisions anew; read the difference before it is committed.

#![allow(clippy::panic)] // tests may

mod rig;
mod stage;

use std::fs;
use std::path::{Path, PathBuf};

/// Every story there is. A file that is missing, empty, or not listed here fails the test.
const STORIES: [&str; 24] = [
    "clock_clamped",
    "clock_rejected",
    "end_of_time",
    "exhaustion",
    "holder_cut_off",
    "holder_walk_through",
    "keeper_cut_off",
    "keeper_fenced",
    "keeper_late_grant",
    "keeper_longest_hold",
    "keeper_lost_answer",
    "keeper_new_epoch",
    "keeper_overslept",
    "keeper_plain_course",
    "keeper_retake",
    "keeper_taken",
    "keeper_vacated",
    "keeper_waiting",
    "late_renewal",
    "lost_answer",
    "paused_worker",
    "release_races",
    "restore",
    "revoke",
];

const ARROW: &str = " → ";
/// Decisions stand in this column, where the operation leaves room.
const COLUMN: usize = 44;

#[test]
fn every_transcript_is_listed_and_every_listed_one_is_there() {
    let mut found: Vec<String> = fs::read_dir(folder())
        .expect("the folder of transcripts")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
        .collect();
    found.sort();
    assert_eq!(found, STORIES.map(|story| format!("{story}.txt")));
}

#[test]
fn every_decision_is_as_written() {
    let bless = std::env::var_os("LEASE_MACHINES_BLESS").is_some();
    let mut operations = 0;
    let mut differences = Vec::new();
    for story in STORIES {
        let path = folder().join(format!("{story}.txt"));
        let written = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let (played, count) = play(story, &written);
        assert!(count >= 4, "{story}.txt: a story of {count} operations tells nothing");
        assert!(written.starts_with("# "), "{story}.txt: it does not begin with what it is about");
        operations += count;
        if played != written {
            if bless {
                fs::write(&path, &played).expect("a folder that can be written");
            } else {
                differences.extend(difference(story, &written, &played));
            }
        }
    }
    println!("{operations} operations in {} transcripts", STORIES.len());
    assert!(differences.is_empty(), "\n{}", differences.join("\n"));
}

/// A runner that accepts anything would accept every transcript.
#[test]
fn a_wrong_decision_is_noticed() {
    let (played, _) = play("wrong", "authority → vacant\nalice acquire at 0 for 10 → occupied\n");
    let wrong = format!("{:COLUMN$}{ARROW}occupied\n", "alice acquire at 0 for 10");
    assert_ne!(played.lines().last(), wrong.lines().last());
    assert!(played.ends_with(" → granted 1 until 10\n"), "{played}");
}

/// What the file would say if it were written now, and how many operations it holds.
fn play(story: &str, written: &str) -> (String, usize) {
    let mut stage = stage::Stage::default();
    let mut played = String::new();
    let mut count = 0;
    for (index, line) in written.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            played.push_str(line);
        } else {
            let operation = line.split(ARROW.trim()).next().unwrap_or_default().trim();
            let decision = stage
                .play(operation)
                .unwrap_or_else(|problem| panic!("{story}.txt:{}: {problem}: {line:?}", index + 1));
            played.push_str(&format!("{operation:COLUMN$}{ARROW}{decision}"));
            count += 1;
        }
        played.push('\n');
    }
    (played, count)
}

fn difference(story: &str, written: &str, played: &str) -> Vec<String> {
    let mut lines: Vec<String> = written
        .lines()
        .zip(played.lines())
        .enumerate()
        .filter(|(_, (written, played))| written != played)
        .map(|(index, (written, played))| {
            format!("{story}.txt:{}\n  written: {written}\n  decided: {played}", index + 1)
        })
        .collect();
    if lines.is_empty() {
        lines.push(format!("{story}.txt: the file does not end with one newline"));
    }
    lines
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts")
}
