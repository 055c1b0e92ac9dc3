//! The caller of a session, and the names that it may offer.

use hapax_api::{Code, OfferedNames, OpenWorkerSession, Problem};
use hapax_engine::model::{Name, WorkspaceId};

use crate::limits::MAX_BOUND_NAMES;

/// The caller of a session.
#[derive(Debug, Clone, Copy)]
pub struct WorkerCaller<'a> {
    /// Workspace of the credential.
    pub workspace: &'a WorkspaceId,
    /// Names that the credential is bound to. `None` allows all.
    pub may_offer: Option<&'a OfferedNames>,
}

impl<'a> WorkerCaller<'a> {
    /// A caller that may offer any name.
    pub fn unbound(workspace: &'a WorkspaceId) -> Self {
        WorkerCaller { workspace, may_offer: None }
    }

    /// Rejects a session that offers a name which the credential is not bound to.
    pub(crate) fn check(&self, offer: &OpenWorkerSession) -> Result<(), Problem> {
        let Some(may) = self.may_offer else { return Ok(()) };
        let workflows = offer.workflows.iter().map(|workflow| &workflow.name);
        let refused = first_outside(&may.workflows, workflows)
            .map(|name| ("workflow", name))
            .or_else(|| first_outside(&may.tasks, &offer.tasks).map(|name| ("task", name)))
            .or_else(|| first_outside(&may.actions, &offer.actions).map(|name| ("action", name)));
        match refused {
            None => Ok(()),
            Some((kind, name)) => {
                let detail = format!(
                    "The credential is bound to names, and the {kind} {name:?} is not among them. Use a credential that may offer it."
                );
                Err(Problem::new(Code::NameNotAllowed, detail).with("kind", kind).with("name", name.as_str()))
            }
        }
    }

    /// Returns whether evidence of a worker about a run of this workflow is accepted.
    pub(crate) fn may_tell_about(&self) -> impl Fn(&Name) -> bool + Send + Sync + 'static {
        let patterns = self.may_offer.map(|may| may.workflows.clone());
        move |workflow| patterns.as_ref().is_none_or(|all| all.iter().any(|one| fits(one, workflow.as_str())))
    }
}

/// Rejects names that no credential can be bound to.
pub fn check_bound_names(names: &OfferedNames) -> Result<(), Problem> {
    let lists = [("workflows", &names.workflows), ("tasks", &names.tasks), ("actions", &names.actions)];
    let refuse = |path: String, why: String| Err(Problem::new(Code::InvalidRequest, why).with("path", path));
    let count: usize = lists.iter().map(|(_, names)| names.len()).sum();
    if count == 0 || count > MAX_BOUND_NAMES {
        return refuse(
            "/mayOffer".into(),
            format!(
                "Name 1 to {MAX_BOUND_NAMES} workflows, tasks and actions in all, or omit `mayOffer` to allow every name."
            ),
        );
    }
    for (list, names) in lists {
        for (place, name) in names.iter().enumerate() {
            let stem = name.strip_suffix('*').unwrap_or(name);
            if stem.is_empty() && name == "*" {
                continue;
            }
            if let Err(invalid) = Name::new("name", stem) {
                return refuse(format!("/mayOffer/{list}/{place}"), format!("{invalid}."));
            }
        }
    }
    Ok(())
}

fn first_outside<'n>(patterns: &[String], names: impl IntoIterator<Item = &'n String>) -> Option<&'n String> {
    names.into_iter().find(|name| !patterns.iter().any(|pattern| fits(pattern, name)))
}

/// A pattern is a name, or the beginning of names and an asterisk.
fn fits(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |stem| name.starts_with(stem))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(workflows: &[&str], tasks: &[&str]) -> OfferedNames {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        OfferedNames { workflows: owned(workflows), tasks: owned(tasks), actions: Vec::new() }
    }

    fn offer(workflow: &str, task: &str) -> OpenWorkerSession {
        let asked = serde_json::json!({ "name": "w", "concurrency": 1, "workflows": [{ "name": workflow }], "tasks": [task] });
        serde_json::from_value(asked).unwrap()
    }

    #[test]
    fn a_bound_credential_may_offer_its_names_and_no_others() {
        let workspace = WorkspaceId::default();
        let may = names(&["order", "billing-*"], &["send-mail"]);
        let caller = WorkerCaller { workspace: &workspace, may_offer: Some(&may) };
        for workflow in ["order", "billing-", "billing-run"] {
            assert!(caller.check(&offer(workflow, "send-mail")).is_ok(), "{workflow}");
        }
        for (workflow, task) in [("orders", "send-mail"), ("billing", "send-mail"), ("order", "send-mails")] {
            let refused = caller.check(&offer(workflow, task)).unwrap_err();
            assert_eq!(refused.code, Code::NameNotAllowed, "{workflow} {task}");
        }
        assert!(WorkerCaller::unbound(&workspace).check(&offer("any", "thing")).is_ok());
        let may_tell = caller.may_tell_about();
        assert!(may_tell(&Name::new("workflow", "order").unwrap()));
        assert!(!may_tell(&Name::new("workflow", "payroll").unwrap()));
    }

    #[test]
    fn bound_names_are_names_or_beginnings_of_names() {
        assert!(check_bound_names(&names(&["order", "a-*", "*"], &[])).is_ok());
        for bad in [
            names(&[], &[]),
            names(&["a*b"], &[]),
            names(&[""], &[]),
            names(&["a~b"], &[]),
            names(&["x"; 201], &[]),
        ] {
            assert_eq!(check_bound_names(&bad).unwrap_err().code, Code::InvalidRequest, "{bad:?}");
        }
    }
}
