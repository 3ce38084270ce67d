//! A picture of a history: who held the resource when.

mod axis;
mod lanes;

use std::fmt::Write;
use std::time::{Duration, SystemTime};

use lease_machines_store::{HistoryEntry, HoldOutcome, WorkResult};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::{people, utc, views, visible};
use crate::duration;

use axis::Axis;
use lanes::lanes;

/// The whole picture, in pixels of its own; it scales.
const WIDTH: f64 = 1000.0;
/// Names stand to the left of this, time to the right.
const LEFT: f64 = 190.0;
const RIGHT: f64 = WIDTH - 30.0;
/// Where the lanes begin.
const TOP: f64 = 66.0;
const LANE: f64 = 30.0;
const BAR: f64 = 18.0;
/// A hold that was shorter than this is still seen.
const LEAST: f64 = 3.0;
/// How many columns of a name, and of the title, fit.
const NAME: usize = 24;
const TITLE: usize = 100;
/// The height of a line of the legend.
const LEGEND: f64 = 20.0;

/// How a kind of hold is drawn. Colours are of the palette by Okabe and Ito, which colour-blind people can tell apart;
/// losses and breaks carry a mark as well.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Kind {
    colour: &'static str,
    mark: Mark,
    legend: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mark {
    None,
    /// A cross at its end: somebody broke it.
    Cross,
    /// A bar at its end: its holder was not heard of any more.
    Bar,
    /// An outline up to where it ends unless it is renewed.
    Open,
}

const GOOD: Kind = Kind { colour: "#0072b2", mark: Mark::None, legend: "released" };
const FAILED: Kind = Kind { colour: "#e69f00", mark: Mark::None, legend: "released, work failed" };
const HELD: Kind = Kind { colour: "#009e73", mark: Mark::Open, legend: "held now" };
const LOST: Kind = Kind { colour: "#d55e00", mark: Mark::Bar, legend: "lost: ran out" };
const BROKEN: Kind = Kind { colour: "#cc79a7", mark: Mark::Cross, legend: "broken by an operator" };
const EPOCH: Kind = Kind { colour: "#000000", mark: Mark::Bar, legend: "lost: new store epoch" };
const TAKEN_BACK: Kind = Kind { colour: "#56b4e9", mark: Mark::None, legend: "withdrawn or rotated" };

/// In the order of the legend.
const KINDS: [Kind; 7] = [GOOD, FAILED, HELD, LOST, BROKEN, EPOCH, TAKEN_BACK];

/// Draws a history, in any order, as an SVG document. `now` is where a hold that goes on is cut off.
pub(crate) fn svg(resource: &str, holds: &[HistoryEntry], now: SystemTime) -> String {
    let mut picture = Picture { out: String::new() };
    let mut holds: Vec<&HistoryEntry> = holds.iter().collect();
    holds.sort_by_key(|hold| (hold.granted_at, hold.token));
    let from = holds.iter().map(|hold| hold.granted_at).min().unwrap_or(now);
    let to = holds.iter().map(|hold| hold.ends_at).max().unwrap_or(now);
    let axis = Axis::new(from, to, LEFT, RIGHT);
    let lanes = lanes(&holds);
    let bottom = TOP + LANE * (lanes.len() as f64 + 1.0);
    let legend = legend(&holds);
    let lines = legend.last().map_or(0.0, |entry| entry.line + 1.0);
    picture.open(resource, &holds, from, to, bottom + 44.0 + LEGEND * lines);
    picture.axis(&axis, bottom);
    picture.gaps(&axis, &holds, bottom);
    for (at, lane) in lanes.iter().enumerate() {
        picture.lane(&axis, TOP + LANE * (at as f64 + 1.0), &lane.name, &lane.holds, now);
    }
    for entry in legend {
        picture.legend(&entry, bottom + 40.0 + LEGEND * entry.line);
    }
    picture.out.push_str("</svg>\n");
    picture.out
}

struct Picture {
    out: String,
}

impl Picture {
    fn open(
        &mut self,
        resource: &str,
        holds: &[&HistoryEntry],
        from: SystemTime,
        to: SystemTime,
        height: f64,
    ) {
        let name = xml(&visible(resource));
        let (from, to) = (utc(from), utc(to));
        let count = holds.len();
        self.line(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
             height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#222222\">"
        ));
        self.line(format_args!("<title>Who held {name}</title>"));
        // Single lines, 45 degrees, so that free time looks like none of the bars.
        self.line(format_args!(
            "<defs><pattern id=\"free\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">\
             <path d=\"M0 6L6 0\" stroke=\"#bbbbbb\" stroke-width=\"1\"/></pattern></defs>"
        ));
        self.line(format_args!("<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>"));
        let title = xml(&shortened(&visible(resource), TITLE));
        self.text(16.0, 28.0, "font-size=\"17\" font-weight=\"bold\"", &title);
        let holds = if count == 1 { "1 hold".to_owned() } else { format!("{count} holds") };
        self.text(16.0, 48.0, "fill=\"#666666\"", &format!("{holds}, {from} to {to} UTC"));
    }

    fn axis(&mut self, axis: &Axis, bottom: f64) {
        for tick in axis.ticks() {
            let x = tick.x;
            self.line(format_args!(
                "<path d=\"M{x:.1} {TOP}V{bottom}\" stroke=\"#e4e4e4\" stroke-width=\"1\" fill=\"none\"/>"
            ));
            self.text(x, bottom + 18.0, "text-anchor=\"middle\" fill=\"#666666\"", &tick.label);
        }
        self.line(format_args!(
            "<path d=\"M{LEFT} {bottom}H{RIGHT}\" stroke=\"#999999\" stroke-width=\"1\" fill=\"none\"/>"
        ));
    }

    /// The first lane: when nobody held it.
    fn gaps(&mut self, axis: &Axis, holds: &[&HistoryEntry], bottom: f64) {
        self.text(16.0, TOP + 19.0, "fill=\"#666666\"", "nobody");
        let mut free_from: Option<SystemTime> = None;
        for hold in holds {
            if let Some(from) = free_from.filter(|from| *from < hold.granted_at) {
                let (left, right) = (axis.x(from), axis.x(hold.granted_at));
                let width = right - left;
                let length = hold.granted_at.duration_since(from).unwrap_or(Duration::ZERO);
                let gap = duration::show(length);
                self.line(format_args!(
                    "<g><title>nobody held it for {gap}, from {} UTC</title><rect x=\"{left:.1}\" y=\"{TOP}\" \
                     width=\"{width:.1}\" height=\"{}\" fill=\"#f5f5f5\"/><rect x=\"{left:.1}\" y=\"{}\" \
                     width=\"{width:.1}\" height=\"{BAR}\" fill=\"url(#free)\"/></g>",
                    utc(from),
                    bottom - TOP,
                    TOP + (LANE - BAR) / 2.0,
                ));
                if width > 7.0 * gap.len() as f64 + 4.0 {
                    let middle = left + width / 2.0;
                    let style = "text-anchor=\"middle\" fill=\"#555555\" stroke=\"#f5f5f5\" stroke-width=\"4\" \
                                 paint-order=\"stroke\"";
                    self.text(middle, TOP + 19.0, style, &gap);
                }
            }
            free_from = free_from.max(Some(hold.ends_at));
        }
    }

    fn lane(&mut self, axis: &Axis, top: f64, name: &str, holds: &[&HistoryEntry], now: SystemTime) {
        self.line(format_args!(
            "<path d=\"M16 {top}H{RIGHT}\" stroke=\"#eeeeee\" stroke-width=\"1\" fill=\"none\"/>"
        ));
        self.line(format_args!(
            "<text x=\"16\" y=\"{}\"><title>{}</title>{}</text>",
            top + 19.0,
            xml(name),
            xml(&shortened(name, NAME))
        ));
        for hold in holds {
            self.hold(axis, top + (LANE - BAR) / 2.0, hold, now);
        }
    }

    fn hold(&mut self, axis: &Axis, top: f64, hold: &HistoryEntry, now: SystemTime) {
        let kind = kind(hold);
        let colour = kind.colour;
        let (left, end) = (axis.x(hold.granted_at), axis.x(hold.ends_at));
        // What is drawn full is what is known to have been held: for a loss up to the last renewal.
        let full = match kind.mark {
            Mark::Open => axis.x(now.clamp(hold.granted_at, hold.ends_at.max(hold.granted_at))),
            Mark::Bar => axis.x(hold.renewed_at.clamp(hold.granted_at, hold.ends_at.max(hold.granted_at))),
            _ => end,
        };
        let (full, end) = (full.max(left + LEAST), end.max(left + LEAST));
        self.line(format_args!("<g><title>{}</title>", xml(&words(hold))));
        self.line(format_args!(
            "<rect x=\"{left:.1}\" y=\"{top}\" width=\"{:.1}\" height=\"{BAR}\" fill=\"{colour}\"/>",
            full - left
        ));
        if end > full {
            let dashes = if kind.mark == Mark::Open { " stroke-dasharray=\"3 2\"" } else { "" };
            self.line(format_args!(
                "<rect x=\"{full:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\" \
                 fill-opacity=\"0.25\" stroke=\"{colour}\" stroke-width=\"1\"{dashes}/>",
                top + 0.5,
                end - full,
                BAR - 1.0
            ));
        }
        self.mark(kind, end, top);
        self.line(format_args!("</g>"));
    }

    fn mark(&mut self, kind: Kind, x: f64, top: f64) {
        let colour = kind.colour;
        let middle = top + BAR / 2.0;
        match kind.mark {
            Mark::None | Mark::Open => {}
            Mark::Cross => self.line(format_args!(
                "<path d=\"M{:.1} {:.1}L{:.1} {:.1}M{:.1} {:.1}L{:.1} {:.1}\" stroke=\"#222222\" \
                 stroke-width=\"2.5\" fill=\"none\"/>",
                x - 6.0,
                middle - 12.0,
                x + 6.0,
                middle + 12.0,
                x - 6.0,
                middle + 12.0,
                x + 6.0,
                middle - 12.0,
            )),
            Mark::Bar => self.line(format_args!(
                "<path d=\"M{x:.1} {:.1}V{:.1}M{:.1} {:.1}H{:.1}M{:.1} {:.1}H{:.1}\" stroke=\"{colour}\" \
                 stroke-width=\"2.5\" fill=\"none\"/>",
                top - 3.0,
                top + BAR + 3.0,
                x - 4.0,
                top - 3.0,
                x + 4.0,
                x - 4.0,
                top + BAR + 3.0,
                x + 4.0,
            )),
        }
    }

    fn legend(&mut self, entry: &Entry, top: f64) {
        let x = entry.x;
        self.line(format_args!(
            "<rect x=\"{x:.1}\" y=\"{top}\" width=\"16\" height=\"10\" fill=\"{}\"/>",
            entry.kind.colour
        ));
        self.text(x + 22.0, top + 10.0, "", entry.kind.legend);
    }

    fn text(&mut self, x: f64, y: f64, style: &str, text: &str) {
        let space = if style.is_empty() { "" } else { " " };
        self.line(format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\"{space}{style}>{text}</text>"));
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.out, "{line}");
    }
}

const fn kind(hold: &HistoryEntry) -> Kind {
    match (hold.outcome, hold.result) {
        (HoldOutcome::Held, _) => HELD,
        (HoldOutcome::Expired, _) => LOST,
        (HoldOutcome::Revoked, _) => BROKEN,
        (HoldOutcome::EpochLost, _) => EPOCH,
        (HoldOutcome::Withdrawn | HoldOutcome::Rotated, _) => TAKEN_BACK,
        (_, WorkResult::Failed) => FAILED,
        _ => GOOD,
    }
}

/// What a pointer over a bar shows.
fn words(hold: &HistoryEntry) -> String {
    let who = people::name(hold.label.as_deref(), hold.identity.as_deref(), hold.owner);
    let length = duration::show(hold.ends_at.duration_since(hold.granted_at).unwrap_or(Duration::ZERO));
    let mut words = format!(
        "{who}, token {}: {} from {} to {} UTC ({length}), {} renewals, work {}",
        hold.token,
        views::outcome(hold.outcome),
        utc(hold.granted_at),
        utc(hold.ends_at),
        hold.renewals,
        views::result(hold.result),
    );
    if let Some(reason) = &hold.reason {
        words.push_str(": ");
        words.push_str(&visible(reason));
    }
    words
}

/// A kind and its place in the legend.
struct Entry {
    kind: Kind,
    line: f64,
    x: f64,
}

/// The kinds that are there, side by side in as many lines as they need.
fn legend(holds: &[&HistoryEntry]) -> Vec<Entry> {
    let (mut line, mut x) = (0.0, LEFT);
    let mut entries = Vec::new();
    for shown in KINDS.into_iter().filter(|one| holds.iter().any(|hold| kind(hold) == *one)) {
        // A letter of this size is some 7 pixels wide.
        let width = 22.0 + 7.0 * shown.legend.len() as f64;
        if x + width > RIGHT {
            (line, x) = (line + 1.0, LEFT);
        }
        entries.push(Entry { kind: shown, line, x });
        x += width + 16.0;
    }
    entries
}

/// The front of a text, up to so many columns.
fn shortened(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut left = columns.saturating_sub(1);
    let fits = |c: &char| match left.checked_sub(c.width().unwrap_or(0)) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    };
    text.chars().take_while(fits).chain(['…']).collect()
}

/// Text for XML. Characters that XML has no place for were written out by [`visible`] already.
fn xml(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut_by_what_is_seen() {
        assert_eq!(shortened("backup@db1", 10), "backup@db1");
        assert_eq!(shortened("backup@db12", 10), "backup@db…");
        assert_eq!(shortened("日本日本日本", 10), "日本日本…");
    }

    #[test]
    fn nobody_ever_is_a_picture_too() {
        let picture = svg("a<b>&\"\u{1b}", &[], SystemTime::UNIX_EPOCH);
        assert!(picture.contains("a&lt;b&gt;&amp;&quot;\\u{1b}"), "{picture}");
        assert!(picture.contains("0 holds"));
    }
}
