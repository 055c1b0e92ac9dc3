//! Conversion between JSON and CEL.

use std::collections::HashMap;

use cel::common::types::{
    CelBool, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelNull, CelOptional, CelString, CelUInt,
};
use cel::common::value::Val;
use serde_json::{Map, Number, Value};

use crate::limits::MAX_EXPRESSION_OUTPUT;

/// A view of the data that borrows its strings.
pub(crate) fn json_value<'v>(value: &'v Value) -> Box<dyn Val + 'v> {
    match value {
        Value::Null => Box::new(CelNull),
        Value::Bool(flag) => Box::new(CelBool::from(*flag)),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(whole), _) => Box::new(CelInt::from(whole)),
            (None, Some(whole)) => Box::new(CelUInt::from(whole)),
            (None, None) => Box::new(CelDouble::from(number.as_f64().unwrap_or(f64::NAN))),
        },
        Value::String(text) => Box::new(CelString::from(text.as_str())),
        Value::Array(items) => Box::new(CelList::from(items.iter().map(json_value).collect::<Vec<_>>())),
        Value::Object(fields) => fields_value(fields.iter().map(|(key, value)| (key.as_str(), value))),
    }
}

pub(crate) fn fields_value<'v>(fields: impl Iterator<Item = (&'v str, &'v Value)>) -> Box<dyn Val + 'v> {
    let fields: HashMap<CelMapKey<'v>, Box<dyn Val + 'v>> =
        fields.map(|(key, value)| (CelMapKey::from(key), json_value(value))).collect();
    Box::new(CelMap::from(fields))
}

/// The value as JSON, if it stays within `left`.
pub(super) fn to_json(value: &(dyn Val + '_), left: &mut usize) -> Result<Value, String> {
    let mut take = |size: usize| {
        let too_large = || format!("it gives more than {MAX_EXPRESSION_OUTPUT} bytes");
        *left = left.checked_sub(size).ok_or_else(too_large)?;
        Ok::<_, String>(())
    };
    if let Some(text) = value.downcast_ref::<CelString>() {
        take(text.inner().len() + 2)?;
        return Ok(Value::String(text.inner().to_string()));
    }
    take(1)?;
    if let Some(flag) = value.downcast_ref::<CelBool>() {
        return Ok(Value::Bool(*flag.inner()));
    }
    if let Some(number) = value.downcast_ref::<CelInt>() {
        return Ok(Value::from(*number.inner()));
    }
    if let Some(number) = value.downcast_ref::<CelUInt>() {
        return Ok(Value::from(*number.inner()));
    }
    if let Some(number) = value.downcast_ref::<CelDouble>() {
        let number = Number::from_f64(*number.inner());
        return number.map(Value::Number).ok_or_else(|| "it gives a number that is not finite".to_string());
    }
    if value.downcast_ref::<CelNull>().is_some() {
        return Ok(Value::Null);
    }
    if let Some(list) = value.downcast_ref::<CelList>() {
        let items = list.inner().iter().map(|item| to_json(item.as_ref(), left));
        return items.collect::<Result<_, _>>().map(Value::Array);
    }
    if let Some(map) = value.downcast_ref::<CelMap>() {
        let mut fields = Map::new();
        for (key, item) in map.inner() {
            let CelMapKey::String(key) = key else {
                return Err("it gives an object with a key that is not a text".to_string());
            };
            *left = left.saturating_sub(key.inner().len() + 3);
            fields.insert(key.inner().to_string(), to_json(item.as_ref(), left)?);
        }
        return Ok(Value::Object(fields));
    }
    if let Some(optional) = value.downcast_ref::<CelOptional>() {
        return optional.inner().map_or(Ok(Value::Null), |held| to_json(held, left));
    }
    Err(format!("it gives {}, which JSON does not have", value.get_type().name()))
}
