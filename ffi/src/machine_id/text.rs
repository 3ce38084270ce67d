//! IDs as text, and encrypted.

use lease_machines_id::{Encrypt, Id, Id64, Id96, Id128, IdCipher, Notation};
use magnus::{Error, RClass, RString, Ruby, Symbol, Value, method, prelude::*};

use super::factory::{key_of, width};
use super::layout::id_of;
use crate::{build, errors, store};

pub(crate) fn define(class: RClass) -> Result<(), Error> {
    let singleton = class.singleton_class()?;
    singleton.define_private_method("_write", method!(write, 3))?;
    singleton.define_private_method("_read", method!(read, 3))?;
    singleton.define_private_method("_cipher", method!(cipher, 4))
}

fn write(ruby: &Ruby, _: Value, id: Value, notation: Value, bits: Value) -> Result<String, Error> {
    fn of<I: Id>(ruby: &Ruby, id: Value, notation: Notation) -> Result<String, Error> {
        notation.write::<I>(id_of(ruby, id)?).ok_or_else(|| {
            errors::range(ruby, format!("the lowest 6 bits of {id} are not zero: it has no UUID"))
        })
    }
    let notation = notation_of(ruby, notation)?;
    match width(ruby, bits)? {
        64 => of::<Id64>(ruby, id, notation),
        96 => of::<Id96>(ruby, id, notation),
        _ => of::<Id128>(ruby, id, notation),
    }
}

fn read(ruby: &Ruby, _: Value, text: RString, notation: Value, bits: Value) -> Result<Value, Error> {
    fn of<I: Id>(ruby: &Ruby, text: &str, notation: Notation) -> Result<Value, Error> {
        let found = notation.read::<I>(text);
        found
            .map(|id| build::wide(ruby, id.value()))
            .map_err(|error| errors::argument(ruby, format!("the text is no ID: {error}")))
    }
    let (text, notation) = (store::text(ruby, "text", text)?, notation_of(ruby, notation)?);
    match width(ruby, bits)? {
        64 => of::<Id64>(ruby, &text, notation),
        96 => of::<Id96>(ruby, &text, notation),
        _ => of::<Id128>(ruby, &text, notation),
    }
}

/// Encrypts, or decrypts, one ID.
fn cipher(ruby: &Ruby, _: Value, encrypt: bool, id: Value, key: Value, bits: Value) -> Result<Value, Error> {
    fn of<I: Encrypt>(ruby: &Ruby, encrypt: bool, id: Value, key: &I::Key) -> Result<Value, Error> {
        let (id, cipher) = (id_of::<I>(ruby, id)?, IdCipher::<I>::new(key));
        let id = if encrypt { cipher.encrypt(id) } else { cipher.decrypt(id) };
        Ok(build::wide(ruby, id.value()))
    }
    match width(ruby, bits)? {
        64 => of::<Id64>(ruby, encrypt, id, &key_of(ruby, key)?),
        96 => of::<Id96>(ruby, encrypt, id, &key_of(ruby, key)?),
        _ => of::<Id128>(ruby, encrypt, id, &key_of(ruby, key)?),
    }
}

fn notation_of(ruby: &Ruby, value: Value) -> Result<Notation, Error> {
    let name = match Symbol::from_value(value) {
        Some(symbol) => symbol.name()?.into_owned(),
        None => return Err(errors::wrong_type(ruby, "notation", "a Symbol", value)),
    };
    match name.as_str() {
        "decimal" => Ok(Notation::Decimal),
        "hex" => Ok(Notation::Hex),
        "crockford" => Ok(Notation::Crockford),
        "base62" => Ok(Notation::Base62),
        "uuid" => Ok(Notation::Uuid),
        other => Err(errors::argument(
            ruby,
            format!(
                "notation must be :decimal, :hex, :crockford, :base62 or :uuid, not :{}",
                errors::shortened(other)
            ),
        )),
    }
}
