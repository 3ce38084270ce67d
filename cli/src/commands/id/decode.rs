//! `lease id decode`.

use std::time::{Duration, SystemTime};

use clap::Args;
use lease_machines_id::{Id, Layout, Notation, Parts};
use serde::Serialize;

use super::layout::{AnyLayout, LayoutOptions, Written};
use crate::args::Form;
use crate::commands::Outcome;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{self, rfc3339, views::Big};

/// Take an ID apart: when it was made, by which machine ID, and its counter
///
/// It also shows how the ID is written otherwise. An ID that was encrypted has to be decrypted first.
#[derive(Args, Debug)]
pub(super) struct Decode {
    #[command(flatten)]
    id: IdOptions,

    #[command(flatten)]
    form: Form,
}

/// An ID, and how to read it.
#[derive(Args, Clone, Debug)]
pub(super) struct IdOptions {
    /// The ID. Digits alone are read in base 10; others by their number, as hex, Crockford's base 32, base 62 or a UUID
    #[arg(value_name = "ID")]
    id: String,

    /// How the ID is written, where that should not be guessed
    #[arg(long, value_name = "NOTATION", value_enum)]
    notation: Option<Written>,

    #[command(flatten)]
    layout: LayoutOptions,
}

/// An ID, taken apart.
#[derive(Serialize, Debug)]
pub(super) struct Decoded {
    bits: u32,
    time: String,
    machine_id: u16,
    counter: Big,
    decimal: Option<String>,
    hex: Option<String>,
    crockford: Option<String>,
    base62: Option<String>,
    uuid: Option<String>,
    #[serde(skip)]
    pub(super) parts: Parts,
    /// How long the time of an ID is the same.
    #[serde(skip)]
    pub(super) tick: Duration,
}

impl IdOptions {
    pub(super) fn decode(&self) -> Result<Decoded, Failure> {
        match self.layout.layout()? {
            AnyLayout::Of64(layout) => self.by(&layout),
            AnyLayout::Of96(layout) => self.by(&layout),
            AnyLayout::Of128(layout) => self.by(&layout),
        }
    }

    fn by<I: Id>(&self, layout: &Layout<I>) -> Result<Decoded, Failure> {
        let text = self.id.trim();
        let notation = self.notation.map_or_else(|| guess(text, I::BITS), |written| Some(written.notation()));
        let Some(notation) = notation else {
            let message = format!(
                "{text:?} has {} characters, as an ID of {} bits has in no notation; is --bits right?",
                text.chars().count(),
                I::BITS
            );
            return Err(Failure::new(Exit::Usage, message));
        };
        let id: I = notation
            .read(text)
            .map_err(|error| Failure::new(Exit::Usage, format!("{text:?} is no ID: {error}")))?;
        let parts = layout.decode(id);
        Ok(Decoded {
            bits: I::BITS,
            time: rfc3339(SystemTime::UNIX_EPOCH + parts.time),
            machine_id: parts.machine_id,
            counter: Big(parts.counter),
            decimal: Notation::Decimal.write(id),
            hex: Notation::Hex.write(id),
            crockford: Notation::Crockford.write(id),
            base62: Notation::Base62.write(id),
            uuid: Notation::Uuid.write(id),
            parts,
            tick: layout.tick(),
        })
    }
}

/// By its look: the notations differ in how many digits an ID has.
fn guess(text: &str, bits: u32) -> Option<Notation> {
    if text.bytes().all(|digit| digit.is_ascii_digit()) {
        return Some(Notation::Decimal);
    }
    let length = u32::try_from(text.len()).ok()?;
    let digits = |values: f64| (f64::from(bits) / values.log2()).ceil();
    [(Notation::Hex, 16.0), (Notation::Crockford, 32.0), (Notation::Base62, 62.0)]
        .into_iter()
        .find(|(_, values)| digits(*values) == f64::from(length))
        .map(|(notation, _)| notation)
        .or((length == 36).then_some(Notation::Uuid))
}

impl Decode {
    pub(super) fn run(self) -> Outcome {
        let decoded = self.id.decode()?;
        if self.form.json {
            output::print_json(&decoded)?;
            return Ok(Exit::Ok);
        }
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let future = if decoded.parts.time > now { " (in the future: is the layout right?)" } else { "" };
        let Decoded { time, machine_id, counter, .. } = &decoded;
        let mut text =
            format!("time        {time}{future}\nmachine ID  {machine_id}\ncounter     {}\n", counter.0);
        let forms = [
            ("decimal", &decoded.decimal),
            ("hex", &decoded.hex),
            ("crockford", &decoded.crockford),
            ("base62", &decoded.base62),
            ("uuid", &decoded.uuid),
        ];
        for (name, form) in forms {
            if let Some(form) = form {
                text.push_str(&format!("{name:<12}{form}\n"));
            }
        }
        output::print(&text)?;
        Ok(Exit::Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_each_notation_writes_is_read_by_its_look() {
        fn check<I: Id>(id: I) {
            for notation in Notation::ALL {
                let text = notation.write(id).unwrap();
                assert_eq!(guess(&text, I::BITS), Some(notation), "{text}");
            }
        }
        check(lease_machines_id::Id64::new(0xabcd_ef01_2345_6789).unwrap());
        check(lease_machines_id::Id96::new(0xabcd_ef01_2345_6789_abcd_ef01).unwrap());
        check(lease_machines_id::Id128::new(0xabcd_ef01_2345_6789_abcd_ef01_2345_6780 & !63).unwrap());
        assert_eq!(guess("abc", 64), None);
    }
}
