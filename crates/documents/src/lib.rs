//! Step workflows, webhook sources and entity workflows as documents: parsed, checked, and run by the engine.
#![doc = include_str!("../README.md")]

mod check;
mod decode;
mod destination;
pub mod entity;
mod evaluation_slots;
mod expression;
mod fields;
mod host_services;
mod input_schema;
pub mod limits;
pub mod model;
mod node;
mod problem;
mod provider;
mod run;
mod schema;
mod scope;
pub mod source;
mod span;
mod template;

pub use check::{Checked, DeclaredNames, JudgeAddress, check, check_bytes};
pub use destination::{BadDestination, Destination, parse_destinations};
pub use entity::{
    CheckedEntity, EntityCall, EntityDocument, check_entity, check_entity_bytes, draw_mermaid, draw_svg,
    is_entity,
};
pub use evaluation_slots::evaluate_fairly;
pub use expression::Expression;
pub use host_services::{
    FENCE_HEADER, HostServices, HttpAnswer, HttpCall, HttpCaller, HttpFault, Secret, Secrets, TaskCall,
    TasksElsewhere, UNKNOWN_SECRET, WorkspaceServices,
};
pub use input_schema::InputSchema;
pub use model::Document;
pub use node::Format;
pub use problem::{Position, Problem, Severity};
pub use run::{
    APPROVAL_SIGNAL, Answer, AnswerRefused, Decider, approval_signal, check_answer, options, register, run,
};
pub use schema::{entity_schema, json_schema, source_schema};
pub use source::{CheckedSource, Source, check_source, check_source_bytes};
pub use span::Span;
pub use template::{Template, named_secrets};
