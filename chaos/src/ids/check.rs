//! Whether no ID was made twice, and none under a lease that was over.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use lease_machines_id::{Id, Id64, Layout};

/// By slot and token: until when the lease stood, by the store's clock in microseconds since 1970, and how it ended.
pub(super) type Holds = BTreeMap<(u16, u64), (u64, String)>;

/// By how much the clocks of this machine may have drifted apart in a run, in microseconds.
const DRIFT: u64 = 100_000;

/// More than these of a kind are counted, and not shown.
const SHOWN: u64 = 10;

pub(super) struct Findings {
    /// IDs that were made.
    pub(super) made: u64,
    /// How often a process began to make none, by the reason.
    pub(super) off: BTreeMap<String, u64>,
    /// Leases on slots, by how they ended.
    pub(super) leases: BTreeMap<String, u64>,
    /// By kind.
    pub(super) violations: BTreeMap<&'static str, u64>,
    pub(super) shown: Vec<Violation>,
}

#[derive(PartialEq, Eq, Debug)]
pub(super) enum Violation {
    /// The same ID by two processes, or twice by one.
    Twice { id: u64, by: [String; 2] },
    /// IDs that were asked for when all that the process had held of this slot was over, so long ago.
    Late { id: u64, by: String, slot: u16, micros: u64 },
    /// IDs with the number of a slot that the process never had.
    NotHeld { id: u64, by: String, slot: u16 },
    /// The store knows nothing of what it had granted.
    Forgotten { by: String, slot: u16, token: u64 },
    /// A process came to an end that it should not come to.
    Failed { by: String, why: String },
}

impl Violation {
    const fn kind(&self) -> &'static str {
        match self {
            Self::Twice { .. } => "Twice",
            Self::Late { .. } => "Late",
            Self::NotHeld { .. } => "NotHeld",
            Self::Forgotten { .. } => "Forgotten",
            Self::Failed { .. } => "Failed",
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.kind())?;
        match self {
            Self::Twice { id, by: [one, other] } => {
                write!(f, "{id:#x} was made by {one} and by {other}")
            }
            Self::Late { id, by, slot, micros } => write!(
                f,
                "{by} made {id:#x} under machine ID {slot} when its lease had been over for {:.3} s",
                *micros as f64 / 1e6
            ),
            Self::NotHeld { id, by, slot } => {
                write!(f, "{by} made {id:#x} under machine ID {slot}, which it had not been given")
            }
            Self::Forgotten { by, slot, token } => {
                write!(f, "{by} was granted slot {slot} under token {token}, and the store has no such lease")
            }
            Self::Failed { by, why } => write!(f, "{by}: {why}"),
        }
    }
}

/// Looks at what the processes have written down: a file each. The store's clock is `ahead` of theirs, in microseconds.
pub(super) fn check(folder: &Path, holds: &Holds, ahead: i64) -> Result<Findings, String> {
    let error = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut check = Check::new(holds, ahead);
    for entry in std::fs::read_dir(folder).map_err(error)? {
        let entry = entry.map_err(error)?;
        let by = entry.file_name().to_string_lossy().into_owned();
        check.process(&by, &std::fs::read_to_string(entry.path()).map_err(error)?);
    }
    Ok(check.end())
}

struct Check<'a> {
    holds: &'a Holds,
    ahead: i64,
    layout: Layout<Id64>,
    /// The names of the processes, and each ID with the place of its maker's.
    names: Vec<String>,
    made: Vec<(u64, u32)>,
    findings: Findings,
}

impl<'a> Check<'a> {
    fn new(holds: &'a Holds, ahead: i64) -> Self {
        let mut leases = BTreeMap::new();
        for (_, outcome) in holds.values() {
            *leases.entry(outcome.clone()).or_default() += 1;
        }
        let findings = Findings {
            made: 0,
            off: BTreeMap::new(),
            leases,
            violations: BTreeMap::new(),
            shown: Vec::new(),
        };
        Self { holds, ahead, layout: Layout::default(), names: Vec::new(), made: Vec::new(), findings }
    }

    fn found(&mut self, violation: Violation) {
        let count = self.findings.violations.entry(violation.kind()).or_default();
        *count += 1;
        if *count <= SHOWN {
            self.findings.shown.push(violation);
        }
    }

    /// What one process has written down. Its last line may have been cut off, by the kill that kept everybody from having what is
    /// in it.
    fn process(&mut self, by: &str, text: &str) {
        let place = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.names.push(by.to_owned());
        // Until when the last of its leases on a slot stood.
        let mut held: BTreeMap<u16, u64> = BTreeMap::new();
        for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
            let (what, rest) = line.split_once(' ').unwrap_or((line, ""));
            let by = || by.to_owned();
            match what {
                "held" => {
                    let mut numbers = rest.split(' ');
                    let slot = numbers.next().and_then(|slot| slot.parse().ok()).unwrap_or(u16::MAX);
                    let token = numbers.next().and_then(|token| token.parse().ok()).unwrap_or(0);
                    match self.holds.get(&(slot, token)) {
                        Some((until, _)) => {
                            let last = held.entry(slot).or_default();
                            *last = (*last).max(*until);
                        }
                        None => self.found(Violation::Forgotten { by: by(), slot, token }),
                    }
                }
                "made" => {
                    let mut words = rest.split(' ');
                    let asked: u64 = words.next().and_then(|asked| asked.parse().ok()).unwrap_or(0);
                    let asked = (asked / 1_000).saturating_add_signed(self.ahead);
                    let mut told = None;
                    for id in words.map(|id| u64::from_str_radix(id, 16).unwrap_or(0)) {
                        self.made.push((id, place));
                        let slot = Id64::new(id.into()).map_or(0, |id| self.layout.decode(id).machine_id);
                        let wrong = match held.get(&slot) {
                            None => Some(Violation::NotHeld { id, by: by(), slot }),
                            Some(until) => asked
                                .checked_sub(until.saturating_add(DRIFT))
                                .map(|micros| Violation::Late { id, by: by(), slot, micros: micros + DRIFT }),
                        };
                        // One of a line says it all.
                        if let (Some(wrong), true) = (wrong, told != Some(slot)) {
                            told = Some(slot);
                            self.found(wrong);
                        }
                    }
                }
                "off" => *self.findings.off.entry(rest.to_owned()).or_default() += 1,
                _ => self.found(Violation::Failed { by: by(), why: rest.to_owned() }),
            }
        }
    }

    fn end(mut self) -> Findings {
        let mut made = std::mem::take(&mut self.made);
        self.findings.made = made.len() as u64;
        made.sort_unstable();
        let same = made.iter().zip(made.iter().skip(1)).filter(|(one, other)| one.0 == other.0);
        for (&(id, one), &(_, other)) in same {
            let by = [one, other].map(|place| self.names[place as usize].clone());
            self.found(Violation::Twice { id, by });
        }
        self.findings
    }
}

#[cfg(test)]
mod tests {
    use lease_machines_id::Parts;

    use super::*;

    /// When the lease of slot 3 ends, by the store's clock, which is half a second ahead of that of the processes.
    const ENDS: u64 = 40_000_000;
    const AHEAD: i64 = 500_000;

    fn id(machine_id: u16, counter: u64) -> String {
        let time = std::time::Duration::from_secs(1_800_000_000);
        let id = Layout::<Id64>::default().encode(Parts { time, machine_id, counter }).unwrap();
        format!("{:x}", u64::from(id))
    }

    fn found(texts: &[String]) -> Findings {
        let holds =
            Holds::from([((3, 77), (ENDS, "Expired".to_owned())), ((4, 78), (ENDS, "Held".to_owned()))]);
        let mut check = Check::new(&holds, AHEAD);
        texts.iter().zip(["a", "b"]).for_each(|(text, by)| check.process(by, text));
        check.end()
    }

    #[track_caller]
    fn one(texts: &[String]) -> Violation {
        let mut findings = found(texts);
        assert_eq!(findings.shown.len(), 1, "{:?}", findings.shown);
        findings.shown.remove(0)
    }

    #[test]
    fn ids_of_their_own_under_leases_that_stand_are_well() {
        let (asked, late) = (ENDS * 1_000 - 600_000_000, ENDS * 1_000);
        let texts = [
            // What a kill has cut off nobody has had.
            format!(
                "held 3 77\nmade {asked} {} {}\noff Expired\nmade {late} {}",
                id(3, 0),
                id(3, 1),
                id(3, 2)
            ),
            format!("held 4 78\nmade {asked} {}\n", id(4, 0)),
        ];
        let findings = found(&texts);
        assert_eq!((findings.made, findings.violations.len()), (3, 0), "{:?}", findings.shown);
        assert_eq!(findings.off, BTreeMap::from([("Expired".to_owned(), 1)]));
        assert_eq!(findings.leases.len(), 2);
    }

    #[test]
    fn one_id_made_twice_is_found_wherever_it_was_made() {
        let line = |slot: u16, token: u64| format!("held {slot} {token}\nmade 1 {} {}\n", id(3, 1), id(3, 0));
        let Violation::Twice { by, .. } = one(&[format!("{}made 2 {}\n", line(3, 77), id(3, 0))]) else {
            panic!()
        };
        assert_eq!(by, ["a", "a"]);
        let both = [line(3, 77), format!("held 3 77\nmade 2 {}\n", id(3, 1))];
        let Violation::Twice { by, .. } = one(&both) else { panic!() };
        assert_eq!(by, ["a", "b"]);
    }

    #[test]
    fn an_id_is_late_by_the_clock_of_the_store() {
        // 0.4 s before the end by the clock of the process is 0.1 s behind it by the store's.
        let made = |before: u64| {
            let asked = ENDS * 1_000 - before;
            [format!("held 3 77\nmade {asked} {} {}\n", id(3, 0), id(3, 1))]
        };
        assert_eq!(found(&made(400_001_000)).violations.len(), 0);
        let Violation::Late { slot: 3, micros: 100_000, .. } = one(&made(400_000_000)) else { panic!() };
    }

    #[test]
    fn what_was_not_granted_is_found() {
        assert!(matches!(
            one(&[format!("held 3 77\nmade 1 {}\n", id(5, 0))]),
            Violation::NotHeld { slot: 5, .. }
        ));
        assert!(matches!(one(&["held 3 76\n".to_owned()]), Violation::Forgotten { slot: 3, token: 76, .. }));
        assert!(matches!(one(&["failed for some reason\n".to_owned()]), Violation::Failed { .. }));
    }
}
