//! JSON of users, kept as the original text.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AdditionalProperties, ObjectBuilder, Schema, SchemaType, Type};
use utoipa::{PartialSchema, ToSchema};

/// Any JSON value, as text. Two values are equal if their texts are equal.
#[derive(Clone)]
pub struct RawJson(Box<RawValue>);

impl RawJson {
    /// Takes `text`, which must be one JSON value without anything around it.
    pub fn from_text(text: String) -> Result<Self, serde_json::Error> {
        RawValue::from_string(text).map(RawJson)
    }

    /// The text of `value`.
    pub fn from_value<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        serde_json::value::to_raw_value(value).map(RawJson)
    }

    /// The text.
    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// The text, without a copy.
    pub fn into_text(self) -> String {
        String::from(Box::<str>::from(self.0))
    }
}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Users' data may be secret and may be large, so it does not belong in a log line.
        write!(f, "RawJson({} bytes)", self.text().len())
    }
}

impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for RawJson {}

impl Serialize for RawJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(RawJson)
    }
}

/// Reads a present value as `Some`, even if it is `null`: a step may return `null`.
pub(crate) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<RawJson>, D::Error> {
    RawJson::deserialize(deserializer).map(Some)
}

impl PartialSchema for RawJson {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new().schema_type(SchemaType::AnyValue).description(Some("Any JSON value.")).into()
    }
}

impl ToSchema for RawJson {}

/// A JSON object, as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct JsonObject(RawJson);

impl JsonObject {
    /// Takes `value` if it is an object.
    pub fn from_json(value: RawJson) -> Option<Self> {
        // The text of a RawValue has no space before its first character.
        value.text().starts_with('{').then_some(JsonObject(value))
    }

    /// The text.
    pub fn text(&self) -> &str {
        self.0.text()
    }

    /// The value.
    pub fn into_json(self) -> RawJson {
        self.0
    }
}

impl Default for JsonObject {
    fn default() -> Self {
        let empty = RawValue::from_string("{}".to_owned()).expect("{} is JSON");
        JsonObject(RawJson(empty))
    }
}

impl<'de> Deserialize<'de> for JsonObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        JsonObject::from_json(RawJson::deserialize(deserializer)?)
            .ok_or_else(|| D::Error::custom("expected a JSON object: {…}"))
    }
}

impl PartialSchema for JsonObject {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::Object)
            .additional_properties(Some(AdditionalProperties::FreeForm(true)))
            .description(Some("Any JSON object."))
            .into()
    }
}

impl ToSchema for JsonObject {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_value_goes_through_byte_for_byte() {
        let text = r#"{ "b" : 1.00, "a":[ 18446744073709551615 ] }"#;
        let value: RawJson = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&value).unwrap(), text);
        assert_eq!(format!("{value:?}"), format!("RawJson({} bytes)", text.len()));
    }

    #[test]
    fn only_an_object_is_an_object() {
        assert!(serde_json::from_str::<JsonObject>("  {\"a\":1}").is_ok());
        for text in ["null", "1", "[]", "\"{}\""] {
            assert!(serde_json::from_str::<JsonObject>(text).is_err(), "{text}");
        }
        assert_eq!(JsonObject::default().text(), "{}");
    }
}
