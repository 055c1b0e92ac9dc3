//! The console over HTTP and in a real browser: who gets in, what they see, and what their forms do.

use crate::support;

#[path = "console/admin.rs"]
mod admin;
#[path = "console/browser.rs"]
mod browser;
#[path = "console/chromium.rs"]
mod chromium;
#[path = "console/elements.rs"]
mod elements;
#[path = "console/escaping.rs"]
mod escaping;
#[path = "console/forms.rs"]
mod forms;
#[path = "console/large_runs.rs"]
mod large_runs;
#[path = "console/looks.rs"]
mod looks;
#[path = "console/people.rs"]
mod operators;
#[path = "console/pages.rs"]
mod pages;
#[path = "console/records.rs"]
mod records;
#[path = "console/roles.rs"]
mod roles;
#[path = "console/sessions.rs"]
mod sessions;
#[path = "console/tasks.rs"]
mod tasks;
#[path = "console/webdriver.rs"]
mod webdriver;
#[path = "console/webhooks.rs"]
mod webhooks;
#[path = "console/workflows.rs"]
mod workflows;
