//! Description of one API operation.

use hapax_api::Code;
use http::Method;
use serde_json::{Value, json};
use utoipa::openapi::path::ParameterIn;
use utoipa::{IntoParams, ToSchema};

use super::schemas::{Schemas, page_of, schema_of};

/// Operations on one kind of resource. The reference has a chapter for each.
pub(crate) struct Group {
    /// Name of the chapter.
    pub(crate) tag: &'static str,
    /// Explanation of the resources, in a sentence or two.
    pub(crate) about: &'static str,
    /// File under `openapi/examples` with the recorded examples.
    pub(crate) examples: &'static str,
    /// The operations, in reading order.
    pub(crate) operations: Vec<Operation>,
}

/// One entry of the table: everything about a route that its code does not say.
pub(crate) struct Operation {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    pub(crate) id: &'static str,
    /// An imperative of a few words.
    pub(crate) summary: &'static str,
    /// Explanation in Markdown.
    pub(crate) about: &'static str,
    /// Query and header parameters of its own. Path parameters and shared headers are derived from
    /// the route.
    pub(crate) parameters: Vec<Value>,
    pub(crate) body: Option<Body>,
    pub(crate) answers: Vec<Answer>,
    /// Codes of its own. Codes common to its kind of route are derived from the route.
    pub(crate) problems: Vec<Code>,
    /// The response is the same for every value of the path, so nothing is "not found".
    pub(crate) is_always_found: bool,
    pub(crate) schemas: Schemas,
}

/// Body of a request.
pub(crate) struct Body {
    pub(crate) is_required: bool,
    pub(crate) about: &'static str,
    /// Media types and their schemas; the first one has the example.
    pub(crate) contents: Vec<(&'static str, Value)>,
}

/// Response to a successful request.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) about: &'static str,
    pub(crate) contents: Vec<(&'static str, Value)>,
    /// Names of shared headers.
    pub(crate) headers: Vec<&'static str>,
}

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";

/// Describes a `GET`.
pub(crate) fn get(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    Operation::new(Method::GET, path, id, summary)
}

/// Describes a `POST`.
pub(crate) fn post(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    Operation::new(Method::POST, path, id, summary)
}

/// Describes a `PUT`.
pub(crate) fn put(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    Operation::new(Method::PUT, path, id, summary)
}

/// Describes a `DELETE`.
pub(crate) fn delete(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    Operation::new(Method::DELETE, path, id, summary)
}

/// Describes a `PATCH`.
pub(crate) fn patch(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    Operation::new(Method::PATCH, path, id, summary)
}

impl Operation {
    fn new(method: Method, path: &'static str, id: &'static str, summary: &'static str) -> Self {
        Operation {
            method,
            path,
            id,
            summary,
            about: "",
            parameters: Vec::new(),
            body: None,
            answers: Vec::new(),
            problems: Vec::new(),
            is_always_found: false,
            schemas: Schemas::new(),
        }
    }

    /// Sets the explanation.
    pub(crate) fn about(mut self, about: &'static str) -> Self {
        self.about = about;
        self
    }

    /// Takes the query parameters that `T` reads.
    pub(crate) fn query<T: IntoParams>(mut self) -> Self {
        for parameter in T::into_params(|| Some(ParameterIn::Query)) {
            self.parameters.push(serde_json::to_value(parameter).expect("a parameter is JSON"));
        }
        self
    }

    /// Takes a header that only this route reads.
    pub(crate) fn header(mut self, name: &str, about: &str, schema: Value) -> Self {
        let required = name.eq_ignore_ascii_case("content-type");
        self.parameters.push(
            json!({ "name": name, "in": "header", "required": required, "description": about, "schema": schema }),
        );
        self
    }

    /// Waits as long as `Prefer: wait=N` says.
    pub(crate) fn waits(mut self) -> Self {
        self.parameters.push(json!({ "$ref": "#/components/parameters/Prefer" }));
        self
    }

    /// Takes a JSON body.
    pub(crate) fn body<T: ToSchema>(mut self) -> Self {
        let schema = schema_of::<T>(&mut self.schemas);
        self.body = Some(Body { is_required: true, about: "", contents: vec![(JSON, schema)] });
        self
    }

    /// Takes a JSON body that may be left out.
    pub(crate) fn optional_body<T: ToSchema>(self) -> Self {
        let mut operation = self.body::<T>();
        operation.body.as_mut().expect("just set").is_required = false;
        operation
    }

    /// Takes a document as JSON or YAML.
    pub(crate) fn document<T: ToSchema>(self) -> Self {
        let mut operation = self.body::<T>();
        let body = operation.body.as_mut().expect("just set");
        body.contents.push((YAML, json!({ "type": "string", "description": "The same document in YAML." })));
        operation
    }

    /// Takes any JSON that the sender sends.
    pub(crate) fn any_body(mut self, about: &'static str) -> Self {
        self.body = Some(Body { is_required: true, about, contents: vec![(JSON, json!({}))] });
        self
    }

    /// Answers with JSON.
    pub(crate) fn answers<T: ToSchema>(mut self, status: u16, about: &'static str) -> Self {
        let schema = schema_of::<T>(&mut self.schemas);
        self.answers.push(Answer { status, about, contents: vec![(JSON, schema)], headers: Vec::new() });
        self
    }

    /// Answers 200 with one page of a list.
    pub(crate) fn answers_page<T: ToSchema>(mut self, about: &'static str) -> Self {
        let schema = page_of::<T>(&mut self.schemas);
        self.answers.push(Answer { status: 200, about, contents: vec![(JSON, schema)], headers: Vec::new() });
        self
    }

    /// Answers with text of these media types.
    pub(crate) fn answers_text(mut self, status: u16, about: &'static str, kinds: &[&'static str]) -> Self {
        let contents = kinds.iter().map(|kind| (*kind, json!({ "type": "string" }))).collect();
        self.answers.push(Answer { status, about, contents, headers: Vec::new() });
        self
    }

    /// Answers with an object of another standard.
    pub(crate) fn answers_object(mut self, status: u16, about: &'static str, kind: &'static str) -> Self {
        let contents = vec![(kind, json!({ "type": "object", "additionalProperties": true }))];
        self.answers.push(Answer { status, about, contents, headers: Vec::new() });
        self
    }

    /// Offers the last response as a web page, too.
    pub(crate) fn or_html(mut self) -> Self {
        let answer = self.answers.last_mut().expect("an answer to give");
        answer.contents.push(("text/html", json!({ "type": "string" })));
        self
    }

    /// Names shared headers of the last answer.
    pub(crate) fn with(mut self, headers: &[&'static str]) -> Self {
        self.answers.last_mut().expect("an answer to put them on").headers.extend(headers);
        self
    }

    /// Names the codes of its own.
    pub(crate) fn fails_with(mut self, problems: &[Code]) -> Self {
        self.problems.extend(problems);
        self
    }

    /// Answers the same for every value of the path.
    pub(crate) fn always_found(mut self) -> Self {
        self.is_always_found = true;
        self
    }

    /// Reads a list page by page?
    pub(crate) fn is_paged(&self) -> bool {
        self.parameters.iter().any(|parameter| parameter["name"] == "cursor")
    }
}
