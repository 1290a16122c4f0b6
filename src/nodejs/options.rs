//! The options of a lock, from the properties of an object.

use std::fmt::Display;
use std::mem;
use std::time::Duration;

use dlock_bindings::options::{Options, Slot};
use dlock_client::{Error, LockOptions, Patience};
use napi::bindgen_prelude::{Either, FromNapiValue, Object, TypeName, Unknown, ValidateNapiValue};
use napi::{JsValue, ValueType};
use napi_derive::napi;

/// A value of this type, or of a wrong one.
pub(crate) type Given<'a, T> = Either<T, Unknown<'a>>;

/// The names of the options of a lock.
#[napi]
pub fn option_names() -> Vec<String> {
    Options::default().slots().iter().map(|(name, _)| camel_case(name)).collect()
}

pub(crate) fn read(given: &Object<'_>) -> Result<LockOptions, Error> {
    let mut options = Options::default();
    for (name, slot) in options.slots() {
        set(slot, given, &camel_case(name))?;
    }
    options.finish()
}

fn set(slot: Slot<'_>, given: &Object<'_>, name: &str) -> Result<(), Error> {
    match slot {
        Slot::Span(length) => *length = option(given, name, span)?.unwrap_or(*length),
        Slot::MaybeSpan(length) => *length = option(given, name, span)?.or(*length),
        Slot::Wait(limit) => *limit = option(given, name, span)?.map_or(*limit, Patience::from),
        Slot::Flag(flag) => *flag = option(given, name, self::flag)?.unwrap_or(*flag),
        Slot::Permits(permits) => *permits = option(given, name, self::permits)?.or(*permits),
        Slot::Text(text) => {
            *text = option(given, name, self::text)?.unwrap_or_else(|| mem::take(text));
        }
    }
    Ok(())
}

/// Reads a property, unless it is missing or undefined.
pub(crate) fn option<'a, T, R>(
    given: &Object<'a>,
    name: &str,
    read: fn(&str, Given<'a, T>) -> Result<R, Error>,
) -> Result<Option<R>, Error>
where
    T: FromNapiValue + TypeName + ValidateNapiValue,
{
    let property = given.get(name).map_err(|error| Error::Usage(error.reason.to_string()))?;
    property.map(|property| read(name, property)).transpose()
}

/// Reads a length of time in milliseconds. A length beyond the largest number means no limit.
pub(crate) fn span(name: &str, given: Given<'_, f64>) -> Result<Duration, Error> {
    let length = |millis| Duration::try_from_secs_f64(millis / 1e3).unwrap_or(Duration::MAX);
    let read = |millis: &f64| (*millis >= 0.0).then(|| length(*millis));
    accept(name, given, "a number of milliseconds", read)
}

fn flag(name: &str, given: Given<'_, bool>) -> Result<bool, Error> {
    accept(name, given, "true or false", |flag| Some(*flag))
}

fn permits(name: &str, given: Given<'_, f64>) -> Result<u16, Error> {
    let fits = |permits: &&f64| permits.fract() == 0.0 && (0.0..65_536.0).contains(*permits);
    let read = |permits: &f64| Some(permits).filter(fits).map(|permits| *permits as u16);
    accept(name, given, "a whole number of holders", read)
}

pub(crate) fn text(name: &str, given: Given<'_, String>) -> Result<String, Error> {
    accept(name, given, "a text", |text| Some(text.clone()))
}

fn accept<T: Display, R>(
    name: &str,
    given: Given<'_, T>,
    wanted: &str,
    read: impl FnOnce(&T) -> Option<R>,
) -> Result<R, Error> {
    let given = match given {
        Either::A(value) => match read(&value) {
            Some(read) => return Ok(read),
            None => value.to_string().replace("inf", "Infinity"),
        },
        Either::B(value) => shown(value).unwrap_or_default(),
    };
    Err(Error::Usage(format!("{name} is {wanted}, not {given}")))
}

/// Shows a value of a wrong type in an error: a text or number, or else the type.
#[napi]
pub fn shown(given: Unknown<'_>) -> napi::Result<String> {
    let kind = given.get_type()?;
    if !matches!(kind, ValueType::String | ValueType::Number | ValueType::Null) {
        return Ok(format!("{kind:?}").to_lowercase());
    }
    let text = given.coerce_to_string()?.into_utf8()?.into_owned()?;
    if kind != ValueType::String {
        return Ok(text);
    }
    let begin: String = text.chars().take(LONGEST_SHOWN).flat_map(char::escape_debug).collect();
    Ok(format!("'{begin}{}'", if text.chars().count() > LONGEST_SHOWN { "…" } else { "" }))
}

/// Names the options in a text of the library as JavaScript does.
pub(crate) fn renamed(text: &str) -> String {
    let names = Options::default().slots().map(|(name, _)| name);
    names.iter().fold(text.to_owned(), |text, name| text.replace(name, &camel_case(name)))
}

pub(crate) fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| name + &word[..1].to_uppercase() + &word[1..])
}

/// Limit of a text in an error, in characters.
const LONGEST_SHOWN: usize = 20;
