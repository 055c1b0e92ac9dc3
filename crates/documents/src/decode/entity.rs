//! Entity workflows: from the tree to the document, with the rules of the model.

use std::collections::BTreeSet;

use hapax_engine::model::{
    EntityProblem, EntityRule, EntityStorage, EntityWorkflow, Name, RevertRule, TableRef,
    check_entity_workflow,
};

use super::entity_step::StepFound;
use super::{Decoder, Located, find};
use crate::check::DeclaredNames;
use crate::entity::{EntityDocument, VARIABLES};
use crate::fields;
use crate::limits::{MAX_ENTITY_STEPS, MAX_STATUSES};
use crate::node::{Kind, Node};
use crate::problem::Problems;

/// Decodes the document. Returns one exactly if there are no errors.
pub(crate) fn decode_entity(
    node: &Node,
    known: &DeclaredNames,
    problems: &mut Problems,
) -> Option<EntityDocument> {
    let mut decoder = Decoder::new(problems, known, VARIABLES);
    let found = decoder.entity(&Located { path: String::new(), node })?;
    let is_whole = !decoder.problems.has_errors();
    found.judge(node, is_whole, problems);
    (!problems.has_errors()).then_some(found.document)
}

/// The readable part of a document. The rules are applied to it even if other parts have errors.
struct EntityFound {
    document: EntityDocument,
    /// Steps with errors. Rules about absent fields do not apply to them.
    broken: BTreeSet<usize>,
    has_statuses: bool,
}

impl Decoder<'_> {
    fn entity(&mut self, place: &Located<'_>) -> Option<EntityFound> {
        let mut fields = self.object(place)?;
        let name = self.need(&mut fields, "name");
        let name = name.and_then(|place| self.entity_name(&place, "entity workflow name"));
        let kind = fields.take("kind");
        self.choice(kind, &[("entity", ())], ());
        let given = fields.take("description");
        let description = self.description(given);
        let module = self.need(&mut fields, "module");
        let module = module.and_then(|place| self.entity_name(&place, "module name"));
        let entity = self.need(&mut fields, "entity");
        let entity = entity.and_then(|place| self.entity_name(&place, "entity type"));
        let home = match fields.take("table") {
            None => EntityStorage::BuiltIn,
            Some(place) => self.table(&place).map(EntityStorage::UserTable).unwrap_or_default(),
        };
        let errors = self.problems.errors();
        let statuses =
            self.need_spelled(&mut fields, "statusTypes").and_then(|place| self.status_types(&place));
        let has_statuses = self.problems.errors() == errors;
        let initial = fields.take("initial").and_then(|place| self.status_list(&place));
        let revert_rule = fields.take("claims").map(|place| self.claims(&place)).unwrap_or_default();
        let steps = self.need(&mut fields, "steps");
        let steps = steps.and_then(|place| self.entity_steps(&place, home != EntityStorage::BuiltIn));
        self.finish(fields, "an entity workflow", &[fields::ENTITY]);
        let steps = steps.unwrap_or_default();
        let broken =
            steps.iter().enumerate().filter(|(_, found)| found.is_broken).map(|(at, _)| at).collect();
        let (steps, details) = steps.into_iter().map(|found| (found.step, found.details)).unzip();
        // Missing fields are reported already; the rules are applied to the rest.
        let or_unnamed = |name: Option<Name>| name.or_else(|| Name::new("name", "unnamed").ok());
        let workflow = EntityWorkflow {
            name: or_unnamed(name)?,
            module: or_unnamed(module)?,
            entity: or_unnamed(entity)?,
            home,
            status_types: statuses.unwrap_or_default(),
            initial: initial.unwrap_or_default(),
            revert_rule,
            steps,
        };
        Some(EntityFound {
            document: EntityDocument { workflow, description, details },
            broken,
            has_statuses,
        })
    }

    /// A name that may be part of an address.
    pub(super) fn entity_name(&mut self, place: &Located<'_>, what: &'static str) -> Option<Name> {
        let name = self.address_name(place, what)?;
        Name::new(what, &name).ok()
    }

    fn table(&mut self, place: &Located<'_>) -> Option<TableRef> {
        let table = match &place.node.kind {
            Kind::Text(name) => TableRef::new(name),
            Kind::Object(_) => {
                let mut fields = self.object(place)?;
                let name = self.need(&mut fields, "name").and_then(|place| self.text(&place));
                let mut column = |field: &str, usual: &str| match self.take_spelled(&mut fields, field) {
                    None => Some(usual.to_string()),
                    Some(place) => self.text(&place).map(str::to_string),
                };
                let (id, status) = (column("id", "id"), column("status", "status"));
                let version = column("version", "version");
                let updated_at = column("updatedAt", "updated_at");
                let data = fields.take("data").map(|place| self.texts(&place)).unwrap_or(Some(Vec::new()));
                self.finish(fields, "a table", &[fields::TABLE]);
                let table = TableRef {
                    table: name?.to_string(),
                    id: id?,
                    status: status?,
                    version: version?,
                    updated_at: updated_at?,
                    data: data?,
                };
                table.check().map(|()| table)
            }
            _ => {
                self.wrong_type(place, "the name of a table, or an object with its name and columns");
                return None;
            }
        };
        match table {
            Ok(table) => Some(table),
            Err(invalid) => {
                self.error(place, "bad_table", invalid);
                None
            }
        }
    }

    fn status_types(&mut self, place: &Located<'_>) -> Option<Vec<Name>> {
        let items = self.list(place)?;
        if !(1..=MAX_STATUSES).contains(&items.len()) {
            self.error(place, "out_of_range", format!("there must be 1 to {MAX_STATUSES} statuses"));
            return None;
        }
        let mut statuses: Vec<Name> = Vec::new();
        for item in items {
            let Some(status) = self.status_name(&item) else { continue };
            match statuses.contains(&status) {
                true => self.error(&item, "duplicate_status", format!("{status} is here twice; keep one")),
                false => statuses.push(status),
            }
        }
        Some(statuses)
    }

    fn status_name(&mut self, place: &Located<'_>) -> Option<Name> {
        let name = self.name(place, "status", 0)?;
        Name::new("status", &name).ok()
    }

    /// One status, or a list of several.
    pub(super) fn status_list(&mut self, place: &Located<'_>) -> Option<Vec<Name>> {
        let Kind::List(_) = &place.node.kind else {
            if !matches!(&place.node.kind, Kind::Text(_)) {
                self.wrong_type(place, "a status, or a list of statuses");
                return None;
            }
            return self.status_name(place).map(|status| vec![status]);
        };
        let items = self.list(place)?;
        if !(1..=MAX_STATUSES).contains(&items.len()) {
            self.error(place, "out_of_range", format!("there must be 1 to {MAX_STATUSES} statuses"));
            return None;
        }
        let statuses: Vec<Option<Name>> = items.iter().map(|item| self.status_name(item)).collect();
        let mut seen = BTreeSet::new();
        for (item, status) in items.iter().zip(&statuses) {
            if status.as_ref().is_some_and(|status| !seen.insert(status)) {
                self.error(item, "duplicate_status", "the status is here twice; keep one");
            }
        }
        statuses.into_iter().collect()
    }

    pub(super) fn one_status(&mut self, place: &Located<'_>) -> Option<Name> {
        self.status_name(place)
    }

    fn claims(&mut self, place: &Located<'_>) -> RevertRule {
        let Some(mut fields) = self.object(place) else { return RevertRule::default() };
        let rules = [("declared", RevertRule::OnePerClaim), ("recorded", RevertRule::Recorded)];
        let given = self.take_spelled(&mut fields, "revertTo");
        let rule = self.choice(given, &rules, RevertRule::default());
        self.finish(fields, "claims", &[fields::CLAIMS]);
        rule
    }

    fn entity_steps(&mut self, place: &Located<'_>, has_table: bool) -> Option<Vec<StepFound>> {
        let items = self.list(place)?;
        if !(1..=MAX_ENTITY_STEPS).contains(&items.len()) {
            self.error(place, "out_of_range", format!("there must be 1 to {MAX_ENTITY_STEPS} steps"));
            return None;
        }
        items.iter().enumerate().map(|(at, item)| self.entity_step(item, at, has_table)).collect()
    }
}

impl EntityFound {
    /// Reports violations of the model's rules, except consequences of errors already reported.
    fn judge(&self, node: &Node, is_whole: bool, problems: &mut Problems) {
        let (mut told, others) = (BTreeSet::new(), other_spellings(node));
        let found = check_entity_workflow(&self.document.workflow);
        let is_whole = is_whole && found.iter().all(|problem| problem.rule.only_warns());
        for problem in found {
            if !is_whole && self.follows(&problem) {
                continue;
            }
            let path = spelled(&problem.path, &others);
            let message = in_words_of_documents(&problem.message, &others);
            let (path, at) = locate(node, &path);
            let code = problem.rule.code();
            // One value for all requesters is one problem, however many requesters there are.
            if !told.insert((path.clone(), code, message.clone())) {
                continue;
            }
            match problem.rule.only_warns() {
                true => problems.warn(&path, at, code, message),
                false => problems.error(&path, at, code, message),
            }
        }
    }

    /// Returns true if the problem may only follow from a part that could not be read.
    fn follows(&self, problem: &EntityProblem) -> bool {
        let step = problem.path.strip_prefix("/steps/").and_then(|rest| rest.split('/').next());
        let step = step.and_then(|step| step.parse::<usize>().ok());
        let is_broken = step.is_some_and(|step| self.broken.contains(&step));
        match problem.rule {
            EntityRule::StatusReachable | EntityRule::NoDeadEnd | EntityRule::RevertsElsewhere => true,
            EntityRule::UnprotectedEffect | EntityRule::StepUsable | EntityRule::IrreversibleReverts => {
                is_broken
            }
            EntityRule::StatusKnown | EntityRule::ClaimStatusesKnown => !self.has_statuses,
            EntityRule::ClaimIsPair
            | EntityRule::ClaimGoesElsewhere
            | EntityRule::ClaimLeavesStatus
            | EntityRule::ClaimIsTransient
            | EntityRule::OneRevertPerClaim
            | EntityRule::ClaimStatusReserved
            | EntityRule::StepsDistinct => false,
        }
    }
}

/// Pairs of model path and document path. The model has one spelling for each field; a document may use another.
fn other_spellings(node: &Node) -> Vec<(String, String)> {
    let mut others = Vec::new();
    let mut add = |node: &Node, path: &str, model: &str, spellings: &[&str]| {
        let written = spellings.iter().find(|name| node.find(name).is_some()).unwrap_or(&spellings[0]);
        if *written != model {
            others.push((format!("{path}/{model}"), format!("{path}/{written}")));
        }
    };
    add(node, "", "status_types", &["statusTypes", "status_types"]);
    let steps = match node.find("steps").map(|steps| &steps.kind) {
        Some(Kind::List(steps)) => steps.as_slice(),
        _ => &[],
    };
    for (at, step) in steps.iter().enumerate() {
        let path = format!("/steps/{at}");
        let claims = ["claimState", "claim_state", "successfulClaimState", "successful_claim_state"];
        add(step, &path, "claim_state", &claims);
        for (camel, snake) in fields::MODEL_SPELLINGS {
            add(step, &path, snake, &[camel, snake]);
        }
    }
    others
}

/// Replaces paths of the model with paths of the document.
fn spelled(text: &str, others: &[(String, String)]) -> String {
    let mut text = text.to_string();
    for (model, written) in others {
        if text.contains(model) {
            text = text.replace(model, written);
        }
    }
    text
}

/// A message of the model with the field names of documents.
fn in_words_of_documents(message: &str, others: &[(String, String)]) -> String {
    let message = spelled(message, others);
    let words = message.split_inclusive(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '/');
    let as_field = |word: &str| {
        let end = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric() && c != '_').len();
        let (name, rest) = word.split_at(end);
        let found = fields::MODEL_SPELLINGS.iter().find(|(_, snake)| *snake == name);
        found.map_or(word.to_string(), |(camel, _)| format!("{camel}{rest}"))
    };
    words.map(as_field).collect()
}

/// The document path for a path of the model. A value for all requesters, or a list written as one value, ends the
/// path. A missing field is reported at the place it would have.
fn locate(node: &Node, path: &str) -> (String, Option<crate::problem::Position>) {
    let (mut here, mut walked) = (node, String::new());
    for key in path.split('/').skip(1) {
        match find(here, &format!("/{key}")) {
            Some(next) => here = next,
            None if matches!(here.kind, Kind::Object(_)) && !is_by_requester(&walked) => {
                return (path.to_string(), here.at);
            }
            None => break,
        }
        walked = format!("{walked}/{key}");
    }
    (walked, here.at)
}

/// Returns true for a path inside a step's field, where only a requester's key can be missing.
fn is_by_requester(path: &str) -> bool {
    path.split('/').count() > 3
}
