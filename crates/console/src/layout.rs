//! The frame around every page: navigation, the search box, who is signed in.

use std::sync::Arc;

use axum::response::{Html, IntoResponse, Response};
use hapax_api::Role;
use http::header::{CONTENT_SECURITY_POLICY, SET_COOKIE};
use http::{HeaderName, HeaderValue};
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::flash::Flash;
use crate::ops::{self, Op};
use crate::pages::PATHS;
use crate::{Session, assets, ui};

/// Pages load their own style and script, speak to this server alone, and are framed by nobody.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The cookie that remembers light or dark.
pub(crate) const THEME_COOKIE: &str = "hapax_theme";

/// Keys of the script. The menu lists them.
const KEYS: [(&str, &str); 4] =
    [("/", "search"), ("g", "and a first letter: a page"), ("?", "this menu"), ("Esc", "close")];

/// Light, dark, or as the system has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Theme {
    System,
    Light,
    Dark,
}

impl Theme {
    pub(crate) fn of(name: Option<String>) -> Self {
        match name.as_deref() {
            Some("light") => Theme::Light,
            Some("dark") => Theme::Dark,
            _ => Theme::System,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Theme::System => "system",
            Theme::Light => "light",
            Theme::Dark => "dark",
        }
    }

    pub(crate) fn cookie(self) -> HeaderValue {
        let value = format!("{THEME_COOKIE}={}; Path=/; SameSite=Strict; Max-Age=31536000", self.as_str());
        HeaderValue::try_from(value).expect("a plain word")
    }
}

/// An entry of the navigation, shown to callers with permission for its operation.
struct Entry {
    path: &'static str,
    name: &'static str,
    icon: &'static str,
    needs: Op,
}

/// Groups of entries, in their order. A new page of its own adds a line here.
const GROUPS: &[(&str, &[Entry])] = &[
    (
        "",
        &[
            Entry {
                path: "/console/evidence",
                name: "Evidence",
                icon: "M8 1.5l5.5 2v4c0 3.5-2.3 5.8-5.5 7-3.2-1.2-5.5-3.5-5.5-7v-4zM5.5 8l1.8 1.8L10.7 6",
                needs: ops::SHOW_LEDGER,
            },
            Entry { path: "/console/runs", name: "Runs", icon: "M4 2.5l9 5.5-9 5.5z", needs: ops::LIST_RUNS },
            Entry {
                path: "/console/entities",
                name: "Entities",
                icon: "M8 1.8l5.6 3.1v6.2L8 14.2l-5.6-3.1V4.9zM2.6 5L8 8l5.4-3M8 8v6",
                needs: ops::LIST_ENTITY_WORKFLOWS,
            },
        ],
    ),
    (
        "To decide",
        &[
            Entry {
                path: "/console/doubts",
                name: "Doubts",
                icon: "M8 1.6L14.4 8 8 14.4 1.6 8zM8 5v3.6M8 10.8v.4",
                needs: ops::LIST_DOUBTS,
            },
            Entry {
                path: "/console/approvals",
                name: "Approvals",
                icon: "M8 1.8a6.2 6.2 0 1 0 0 12.4A6.2 6.2 0 0 0 8 1.8zM5.2 8.2l2 2 3.6-4",
                needs: ops::LIST_PROMISES,
            },
        ],
    ),
    (
        "Records",
        &[
            Entry {
                path: "/console/ledger",
                name: "Ledger",
                icon: "M3.5 1.8h9v12.4h-9zM6 5h4M6 8h4M6 11h2.5",
                needs: ops::SHOW_LEDGER,
            },
            Entry {
                path: "/console/keys",
                name: "Keys",
                icon: "M7.2 8a2.6 2.6 0 1 0 0 .01zM7.2 8H14v2.6M11.2 8v2",
                needs: ops::SHOW_KEY,
            },
            Entry {
                path: "/console/webhooks",
                name: "Webhooks",
                icon: "M2 5.5h9M8.2 2.5l3 3-3 3M14 10.5H5M7.8 7.5l-3 3 3 3",
                needs: ops::LIST_WEBHOOK_EVENTS,
            },
        ],
    ),
    (
        "Set-up",
        &[
            Entry {
                path: "/console/workflows",
                name: "Workflows",
                icon: "M2 2.5h4v4H2zM10 9.5h4v4h-4zM6 4.5h3.5a2.5 2.5 0 0 1 2.5 2.5v2.5",
                needs: ops::LIST_DEFINITIONS,
            },
            Entry {
                path: "/console/admin",
                name: "Administration",
                icon: "M2 4.5h7M12.5 4.5H14M2 11.5h1.5M7 11.5h7M10.8 2.8v3.4M5.2 9.8v3.4",
                needs: ops::LIST_AUDIT,
            },
        ],
    ),
];

/// The navigation of one caller.
#[derive(Clone)]
pub(crate) struct Nav(Vec<(&'static str, Vec<&'static Entry>)>);

impl Nav {
    pub(crate) fn of(may: &dyn Fn(&Op) -> bool) -> Self {
        let groups = GROUPS.iter().map(|(name, entries)| {
            (
                *name,
                entries
                    .iter()
                    .filter(|entry| PATHS.contains(&entry.path) && may(&entry.needs))
                    .collect::<Vec<_>>(),
            )
        });
        Nav(groups.filter(|(_, entries)| !entries.is_empty()).collect())
    }
}

impl std::fmt::Debug for Nav {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Nav(…)")
    }
}

/// The frame of a page.
#[derive(Clone)]
pub(crate) struct Frame {
    pub(crate) session: Arc<Session>,
    pub(crate) nav: Nav,
    /// Path of this page, without its query.
    pub(crate) path: String,
    /// Path and query.
    pub(crate) here: String,
    pub(crate) theme: Theme,
    pub(crate) flash: Option<Flash>,
    /// Text of the search box.
    pub(crate) search: String,
    /// Where a refusal leads back to.
    pub(crate) back: Option<String>,
    /// Where fragments of this page come from while it is open.
    pub(crate) live: Option<String>,
    /// Should the script refresh the page while it is visible?
    pub(crate) refresh: bool,
}

impl std::fmt::Debug for Frame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Frame").field("here", &self.here).finish_non_exhaustive()
    }
}

/// A page with everything around it.
pub(crate) fn page(frame: &Frame, title: &str, content: Markup) -> Response {
    let body = html! {
        a.skip href="#main" { "Skip to the content" }
        header.top {
            a.brand href=(crate::HOME) aria-label="Hapax" { (ui::logo()) span { "Hapax" } }
            form.search action="/console/search" role="search" {
                (ui::icon("M7 2.2a4.8 4.8 0 1 0 0 9.6 4.8 4.8 0 0 0 0-9.6zM10.5 10.5L14 14"))
                input type="search" name="q" value=(frame.search) aria-label="Search" placeholder="Order, key, run, subject, event id…" autocomplete="off" spellcheck="false" required;
                kbd aria-hidden="true" { "/" }
            }
            (who(frame))
        }
        details.menu { summary.button.plain { "Menu" } (navigation(frame)) }
        div.columns {
            div.side { (navigation(frame)) }
            main #main tabindex="-1" data-live=[frame.live.as_deref()] data-refresh[frame.refresh] {
                @if let Some(Flash(text)) = &frame.flash { p.flash role="status" { (text) } }
                (content)
            }
        }
        footer.foot {
            a href="/docs" { "API reference" } a href="/errors" { "Errors" }
            span { "Hapax " (env!("CARGO_PKG_VERSION")) }
        }
    };
    let mut response = answer(document(frame.theme, title, body));
    if frame.flash.is_some() {
        response.headers_mut().append(SET_COOKIE, Flash::forget());
    }
    response
}

fn navigation(frame: &Frame) -> Markup {
    html! {
        nav aria-label="Pages" {
            @for (name, entries) in &frame.nav.0 {
                @if !name.is_empty() { p.group { (name) } }
                ul {
                    @for entry in entries {
                        @let is_here = frame.path == entry.path || frame.path.starts_with(&format!("{}/", entry.path));
                        li { a href=(entry.path) aria-current=[is_here.then_some("page")] { (ui::icon(entry.icon)) (entry.name) } }
                    }
                }
            }
        }
    }
}

fn who(frame: &Frame) -> Markup {
    let session = &frame.session;
    let post = |action: &str, fields: Markup| {
        html! { form method="post" action=(action) { input type="hidden" name="csrf" value=(session.csrf); (fields) } }
    };
    html! {
        details.who {
            summary { span.workspace { (session.workspace) } span.role { (role(session.role)) } }
            div.sheet {
                p { b { (session.name) } br; span.dim { (role(session.role)) " in " (session.workspace) } }
                ul {
                    li { a href="/console/sessions" { "Sessions" } }
                    @for (theme, name) in [(Theme::Light, "Light"), (Theme::Dark, "Dark"), (Theme::System, "Like the system")] {
                        @if theme != frame.theme {
                            li { (post("/console/theme", html! {
                                input type="hidden" name="theme" value=(theme.as_str());
                                input type="hidden" name="next" value=(frame.here);
                                button.link type="submit" { (name) }
                            })) }
                        }
                    }
                    li.keys aria-label="Keys" {
                        @for (key, does) in KEYS { p { kbd { (key) } " " (does) } }
                    }
                    li { (post("/console/sign-out", html! { button.link type="submit" { "Sign out" } })) }
                }
            }
        }
    }
}

/// A role, for people.
pub(crate) fn role(role: Role) -> &'static str {
    role.as_str()
}

/// A page without navigation, before sign-in.
pub(crate) fn bare(class: &str, title: &str, content: Markup) -> Response {
    answer(document(Theme::System, title, html! { main.bare.(class) #main { (content) } }))
}

/// A page that asks for itself once more, from here.
pub(crate) fn again(here: &str) -> Response {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="refresh" content={ "0;url=" (here) };
                title { "Hapax" }
            }
            body { a href=(here) { "Go on" } }
        }
    };
    answer(markup)
}

fn document(theme: Theme, title: &str, body: Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" data-theme=(theme.as_str()) {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content=(match theme { Theme::System => "light dark", other => other.as_str() });
                title { (title) " · Hapax" }
                link rel="stylesheet" href=(assets::style().path);
                link rel="icon" type="image/svg+xml" href=(assets::icon().path);
                script type="module" src=(assets::script().path) {}
            }
            body { (body) }
        }
    }
}

fn answer(markup: PreEscaped<String>) -> Response {
    let headers = [
        (CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
    ];
    (headers, Html(markup.into_string())).into_response()
}
