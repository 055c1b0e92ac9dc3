//! A checked entity workflow written as JSON: the document again.

use std::collections::BTreeMap;

use hapax_engine::model::{
    ClaimTo, EntityStep, EntityStorage, Irreversible, Name, PerRequester, RevertRule, TableRef,
};
use serde::{Serialize, Serializer};

use super::{
    ActionRequest, AfterEffect, AfterRequest, EntityDocument, RunOf, StepAction, StepDetails, Validation,
};
use crate::model::{Probe, Request};
use crate::span::Span;
use crate::template::Template;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EntityJson<'a> {
    name: &'a str,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    module: &'a str,
    entity: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    table: Option<Table<'a>>,
    status_types: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    initial: Option<OneOrMore<&'a str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    claims: Option<Claims>,
    steps: Vec<Step<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Claims {
    revert_to: &'static str,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Table<'a> {
    Name(&'a str),
    #[serde(rename_all = "camelCase")]
    Columns {
        name: &'a str,
        id: &'a str,
        status: &'a str,
        version: &'a str,
        updated_at: &'a str,
        #[serde(skip_serializing_if = "<[String]>::is_empty")]
        data: &'a [String],
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum OneOrMore<T> {
    One(T),
    More(Vec<T>),
}

#[derive(Serialize)]
#[serde(untagged)]
enum OneOrByRequester<T> {
    All(T),
    By(BTreeMap<String, T>),
}

/// `irreversible`: `true` means `once`, and is what it is written as.
#[derive(Serialize)]
#[serde(untagged)]
enum Repeat {
    Flag(bool),
    Word(&'static str),
}

impl From<Irreversible> for Repeat {
    fn from(irreversible: Irreversible) -> Self {
        match irreversible {
            Irreversible::No => Repeat::Flag(false),
            Irreversible::Once => Repeat::Flag(true),
            Irreversible::Each => Repeat::Word(Irreversible::Each.as_str()),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Step<'a> {
    step_id: u32,
    step_key: &'a str,
    status: OneOrByRequester<OneOrMore<&'a str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    claim_state: Option<OneOrByRequester<[&'a str; 2]>>,
    successful_state: OneOrByRequester<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    action: Option<OneOrByRequester<&'a StepAction>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    validation: Option<OneOrByRequester<OneOrMore<&'a Validation>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    effect: Option<OneOrByRequester<&'static str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    recovery: Option<OneOrByRequester<&'static str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    irreversible: Option<OneOrByRequester<Repeat>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency: Option<OneOrByRequester<&'static str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    probe: Option<OneOrByRequester<&'a Probe>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<OneOrByRequester<&'static str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    success_after_effect: Option<OneOrByRequester<&'a AfterEffect>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure_after_effect: Option<OneOrByRequester<&'a AfterEffect>>,
}

impl Serialize for EntityDocument {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let workflow = &self.workflow;
        let written = EntityJson {
            name: workflow.name.as_str(),
            kind: "entity",
            description: self.description.as_deref(),
            module: workflow.module.as_str(),
            entity: workflow.entity.as_str(),
            table: match &workflow.home {
                EntityStorage::BuiltIn => None,
                EntityStorage::UserTable(table) => Some(table_of(table)),
            },
            status_types: workflow.status_types.iter().map(Name::as_str).collect(),
            initial: (!workflow.initial.is_empty()).then(|| one_or_more(&workflow.initial, Name::as_str)),
            claims: match workflow.revert_rule {
                RevertRule::OnePerClaim => None,
                RevertRule::Recorded => Some(Claims { revert_to: "recorded" }),
            },
            steps: workflow
                .steps
                .iter()
                .zip(&self.details)
                .map(|(step, details)| step_of(step, details))
                .collect(),
        };
        written.serialize(serializer)
    }
}

fn table_of(table: &TableRef) -> Table<'_> {
    let usual = TableRef::new(&table.table);
    match usual.is_ok_and(|usual| usual == *table) {
        true => Table::Name(&table.table),
        false => Table::Columns {
            name: &table.table,
            id: &table.id,
            status: &table.status,
            version: &table.version,
            updated_at: &table.updated_at,
            data: &table.data,
        },
    }
}

fn step_of<'a>(step: &'a EntityStep, details: &'a StepDetails) -> Step<'a> {
    fn maybe<'a, T, V>(
        field: &'a Option<PerRequester<T>>,
        to: impl Fn(&'a T) -> V,
    ) -> Option<OneOrByRequester<V>> {
        field.as_ref().map(|field| per(field, to))
    }
    Step {
        step_id: step.id,
        step_key: step.key.as_str(),
        status: per(&step.status, |statuses| one_or_more(statuses, Name::as_str)),
        claim_state: maybe(&step.claim, |ClaimTo { into, revert_to }| [into.as_str(), revert_to.as_str()]),
        successful_state: per(&step.successful_state, Name::as_str),
        action: maybe(&details.action, |action| action),
        validation: maybe(&details.validation, |list| one_or_more(list, |validation| validation)),
        effect: maybe(&step.idempotent, |is| if *is { "idempotent" } else { "non_idempotent" }),
        recovery: maybe(&step.recovery, |recovery| recovery.as_str()),
        irreversible: maybe(&step.irreversible, |irreversible| Repeat::from(*irreversible)),
        idempotency: maybe(&step.key_required, |is| if *is { "required" } else { "optional" }),
        probe: maybe(&details.probe, |probe| probe),
        retry: maybe(&step.retry, |retry| retry.as_str()),
        success_after_effect: maybe(&details.success_after_effect, |after| after),
        failure_after_effect: maybe(&details.failure_after_effect, |after| after),
    }
}

fn per<'a, T, V>(field: &'a PerRequester<T>, to: impl Fn(&'a T) -> V) -> OneOrByRequester<V> {
    match field {
        PerRequester::All(value) => OneOrByRequester::All(to(value)),
        PerRequester::By(values) => {
            OneOrByRequester::By(values.iter().map(|(name, value)| (name.to_string(), to(value))).collect())
        }
    }
}

fn one_or_more<'a, T, V>(items: &'a [T], to: impl Fn(&'a T) -> V) -> OneOrMore<V> {
    match items {
        [one] => OneOrMore::One(to(one)),
        more => OneOrMore::More(more.iter().map(to).collect()),
    }
}

impl Serialize for Validation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct EntityJson<'a> {
            when: &'a crate::expression::Expression,
            message: &'a Template,
            #[serde(skip_serializing_if = "Option::is_none")]
            code: Option<&'a str>,
        }
        EntityJson { when: &self.when, message: &self.message, code: self.code.as_deref() }
            .serialize(serializer)
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Act<'a> {
    Name(&'a str),
    Handler {
        handler: &'a str,
        transaction: bool,
    },
    Workflow {
        workflow: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        input: Option<&'a Template>,
    },
    Http {
        http: RequestJson<'a>,
    },
}

#[derive(Serialize)]
struct RequestJson<'a> {
    #[serde(flatten)]
    request: &'a Request,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<&'a Template>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a Template>,
}

impl Serialize for StepAction {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            StepAction::Handler { name, transaction: false } => Act::Name(name.as_str()),
            StepAction::Handler { name, transaction } => {
                Act::Handler { handler: name.as_str(), transaction: *transaction }
            }
            StepAction::Workflow(run) => act_of(run),
            StepAction::Http(http) => {
                let ActionRequest { request, timeout, output, data } = &**http;
                let (output, data) = (output.as_ref(), data.as_ref());
                Act::Http { http: RequestJson { request, timeout: *timeout, output, data } }
            }
        }
        .serialize(serializer)
    }
}

impl Serialize for AfterEffect {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            AfterEffect::Target(name) => Act::Name(name.as_str()),
            AfterEffect::Workflow(run) => act_of(run),
            AfterEffect::Http(http) => {
                let AfterRequest { request, timeout } = &**http;
                Act::Http { http: RequestJson { request, timeout: *timeout, output: None, data: None } }
            }
        }
        .serialize(serializer)
    }
}

fn act_of(run: &RunOf) -> Act<'_> {
    Act::Workflow { workflow: run.workflow.as_str(), input: run.input.as_ref() }
}
