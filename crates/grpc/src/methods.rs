//! The methods and their routes, and how messages look as JSON: read from the options in the descriptors.

use std::collections::HashMap;

use http::Method as Verb;
use prost_reflect::{DescriptorPool, DynamicMessage, ExtensionDescriptor, Kind, MessageDescriptor};

/// All services of the API.
pub(crate) struct Services {
    pub(crate) pool: DescriptorPool,
    pub(crate) methods: Vec<Method>,
    pub(crate) shapes: Shapes,
}

/// One method and its route.
pub(crate) struct Method {
    /// `/hapax.v1.Runs/StartRun`.
    pub(crate) path: String,
    pub(crate) verb: Verb,
    /// Path of the route, with the names of fields in braces.
    pub(crate) route: String,
    /// Are fields that are not in the path sent in the body? Otherwise they are the query.
    pub(crate) has_body: bool,
    pub(crate) input: MessageDescriptor,
    pub(crate) output: MessageDescriptor,
}

/// Where the JSON of a message differs from the usual mapping, by the full names of fields.
#[derive(Default)]
pub(crate) struct Shapes {
    /// Fields that are headers, and their templates.
    pub(crate) headers: HashMap<String, Header>,
    /// Messages whose fields stand in the object around them, with the member that names the message, if there is one.
    pub(crate) flat: HashMap<String, Option<Tag>>,
}

/// A member that names a message.
pub(crate) struct Tag {
    pub(crate) member: String,
    pub(crate) value: String,
}

/// A header made from a field.
pub(crate) struct Header {
    pub(crate) name: String,
    /// The value, with `{}` for the field.
    pub(crate) template: String,
}

impl Services {
    /// Reads the descriptors.
    pub(crate) fn read() -> Self {
        let pool =
            DescriptorPool::decode(hapax_api::grpc::DESCRIPTORS).expect("a test reads the descriptors");
        let option =
            |name: &str| pool.get_extension_by_name(name).expect("the option is among the descriptors");
        let http = option("google.api.http");
        let services = pool.services().filter(|service| service.package_name() == "hapax.v1");
        let methods: Vec<_> = services.collect();
        let methods = methods.iter().flat_map(|service| service.methods()).map(|method| {
            let path = format!("/{}/{}", method.parent_service().full_name(), method.name());
            let rule = method.options().get_extension(&http).into_owned();
            let rule = rule.as_message().expect("the option is a message");
            let text = |name: &str| {
                let value = rule.get_field_by_name(name);
                value.as_deref().and_then(|value| value.as_str()).unwrap_or_default().to_owned()
            };
            let verbs = [("get", Verb::GET), ("post", Verb::POST), ("delete", Verb::DELETE)];
            let found = verbs.into_iter().find(|(name, _)| !text(name).is_empty());
            let (name, verb) = found.unwrap_or_else(|| panic!("{path} has no route"));
            Method {
                path,
                verb,
                route: text(name),
                has_body: text("body") == "*",
                input: method.input(),
                output: method.output(),
            }
        });
        let methods = methods.collect();
        let options = JsonOptions {
            tag: option("hapax.v1.tag"),
            header: option("hapax.v1.header"),
            flat: option("hapax.v1.flat"),
            named: option("hapax.v1.named"),
        };
        let shapes = Shapes::read(&pool, &options);
        Services { pool, methods, shapes }
    }
}

/// The options of `json.proto`.
struct JsonOptions {
    tag: ExtensionDescriptor,
    header: ExtensionDescriptor,
    flat: ExtensionDescriptor,
    named: ExtensionDescriptor,
}

/// Text of an option; empty if it is not given.
fn text_of(options: &DynamicMessage, option: &ExtensionDescriptor) -> String {
    options.get_extension(option).as_str().unwrap_or_default().to_owned()
}

impl Shapes {
    fn read(pool: &DescriptorPool, known: &JsonOptions) -> Self {
        let mut shapes = Shapes::default();
        let messages = pool.all_messages().filter(|message| message.package_name() == "hapax.v1");
        for field in messages.flat_map(|message| message.fields().collect::<Vec<_>>()) {
            let (name, options) = (field.full_name().to_owned(), field.options());
            if let Some((header, template)) = text_of(&options, &known.header).split_once(": ") {
                let header = Header { name: header.to_owned(), template: template.to_owned() };
                shapes.headers.insert(name.clone(), header);
            }
            if options.get_extension(&known.flat).as_bool() == Some(true) {
                shapes.flat.insert(name.clone(), None);
            }
            let choice = field.containing_oneof().filter(|_| matches!(field.kind(), Kind::Message(_)));
            let member = choice.map(|choice| text_of(&choice.options(), &known.tag)).unwrap_or_default();
            if !member.is_empty() {
                let named = text_of(&options, &known.named);
                let value = if named.is_empty() { field.json_name().to_owned() } else { named };
                shapes.flat.insert(name, Some(Tag { member, value }));
            }
        }
        shapes
    }
}
