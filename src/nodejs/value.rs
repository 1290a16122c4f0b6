//! Values of the library as values of JavaScript: records are objects, lengths of time are in milliseconds.

use dlock_bindings::failure::Failure;
use dlock_bindings::value::{Fields, Record, Value};
use napi::Env;
use napi::bindgen_prelude::Object;

use crate::arguments::{self, millis};
use crate::options::camel_case;

/// An object of TypeScript's type `Failure`.
pub(crate) fn failure(env: &Env, failure: impl Into<Failure>) -> napi::Result<Object<'_>> {
    let Failure { code, message, details } = failure.into();
    let mut object = object(env, details, camel_case)?;
    object.set("code", code)?;
    object.set("message", message)?;
    Ok(object)
}

fn record(env: &Env, Record { kind, fields }: Record) -> napi::Result<Object<'_>> {
    object(env, fields, if kind.is_empty() { str::to_owned } else { camel_case })
}

/// An object with these fields. Those without a value are missing.
fn object(env: &Env, fields: Fields, name: fn(&str) -> String) -> napi::Result<Object<'_>> {
    let mut object = Object::new(env)?;
    for (field, value) in fields {
        set(env, &mut object, &name(field), value)?;
    }
    Ok(object)
}

/// Sets a property to this value.
pub(crate) fn set(
    env: &Env,
    object: &mut Object<'_>,
    name: &str,
    value: Value,
) -> napi::Result<()> {
    match value {
        Value::Nothing => Ok(()),
        Value::Flag(flag) => object.set(name, flag),
        Value::Number(number) => object.set(name, arguments::number(number)),
        Value::Span(length) => object.set(name, millis(length)),
        Value::Bytes(bytes) => object.set(name, arguments::bytes(&bytes)),
        Value::List(all) => {
            let all = all.into_iter().map(|each| self::record(env, each));
            object.set(name, all.collect::<napi::Result<Vec<_>>>()?)
        }
        Value::Record(record) => object.set(name, self::record(env, record)?),
    }
}
