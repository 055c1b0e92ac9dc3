//! From the JSON of a response to a message. Members that the message does not have are left out.

use std::borrow::Cow;
use std::collections::HashMap;

use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, Value};
use serde_json::value::RawValue;

use crate::SERVICES;

type Members<'a> = HashMap<Cow<'a, str>, &'a RawValue>;

/// Reads `json` as a message.
pub(crate) fn message_of(
    descriptor: &MessageDescriptor,
    json: &str,
) -> Result<DynamicMessage, serde_json::Error> {
    let members: Members<'_> = serde_json::from_str(json)?;
    of_members(descriptor, &members)
}

fn of_members(
    descriptor: &MessageDescriptor,
    members: &Members<'_>,
) -> Result<DynamicMessage, serde_json::Error> {
    let mut message = DynamicMessage::new(descriptor.clone());
    for field in descriptor.fields() {
        if let (Some(tag), Kind::Message(inner)) = (SERVICES.shapes.flat.get(field.full_name()), field.kind())
        {
            let is_there = match tag {
                Some(tag) => {
                    let named = members
                        .get(tag.member.as_str())
                        .map(|named| serde_json::from_str::<String>(named.get()));
                    named.transpose()?.as_ref() == Some(&tag.value)
                }
                // Without a tag, its first field says that it is there.
                None => inner.get_field(1).is_some_and(|first| members.contains_key(first.json_name())),
            };
            if is_there {
                message.set_field(&field, Value::Message(of_members(&inner, members)?));
            }
            continue;
        }
        let Some(member) = members.get(field.json_name()) else { continue };
        let is_null = member.get() == "null" && field.kind() != Kind::Bytes;
        if !is_null {
            message.set_field(&field, value_of(&field, member.get())?);
        }
    }
    Ok(message)
}

fn value_of(field: &FieldDescriptor, json: &str) -> Result<Value, serde_json::Error> {
    if field.is_list() {
        let values: Vec<&RawValue> = serde_json::from_str(json)?;
        let values: Result<_, _> = values.into_iter().map(|value| one_of(field, value.get())).collect();
        return Ok(Value::List(values?));
    }
    one_of(field, json)
}

fn one_of(field: &FieldDescriptor, json: &str) -> Result<Value, serde_json::Error> {
    Ok(match field.kind() {
        Kind::String => Value::String(serde_json::from_str(json)?),
        Kind::Bytes => Value::Bytes(json.as_bytes().to_vec().into()),
        Kind::Bool => Value::Bool(serde_json::from_str(json)?),
        Kind::Uint32 => Value::U32(serde_json::from_str(json)?),
        Kind::Uint64 => Value::U64(serde_json::from_str(json)?),
        Kind::Int64 => Value::I64(serde_json::from_str(json)?),
        Kind::Double => Value::F64(serde_json::from_str(json)?),
        Kind::Message(inner) => Value::Message(message_of(&inner, json)?),
        other => unreachable!("no message of a response has {other:?}"),
    })
}
