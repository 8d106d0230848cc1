//! The page layout: navigation, heading, notices; and static pages.

use axum::response::{IntoResponse as _, Response};
use http::{HeaderValue, StatusCode, header};
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::Introspection;
use super::assets;
use mixer_base::scheduling::let_others_run;

/// A page of the navigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Topic {
    /// Its path.
    pub(super) path: &'static str,
    /// Its title.
    pub(super) name: &'static str,
    /// The shortcut after `g`.
    pub(super) key: char,
}

/// Topics under a heading, which is empty for the first ones.
pub type TopicGroup = (&'static str, &'static [Topic]);

/// A topic of the navigation: its path, its title, and the shortcut after `g`.
pub const fn topic(path: &'static str, name: &'static str, key: char) -> Topic {
    Topic { path, name, key }
}

/// The topics that every process has, in the order of Istio Mixer.
pub const PROCESS_TOPICS: TopicGroup = (
    "Process",
    &[
        topic("/scopez/", "Logging Scopes", 's'),
        topic("/taskz/", "Tasks", 'n'),
        topic("/memz/", "Memory Usage", 'm'),
        topic("/envz/", "Environment Variables", 'v'),
        topic("/procz/", "Process Info", 'o'),
        topic("/argz/", "Command-Line Arguments", 'x'),
        topic("/versionz/", "Version Info", 'i'),
        topic("/metricz/", "Metrics", 't'),
        topic("/signalz/", "Signals", 'z'),
    ],
);

/// The navigation of a server of Mixer, in groups.
pub(super) const TOPICS: &[TopicGroup] = &[
    ("", &[topic("/", "Overview", 'h')]),
    (
        "Traffic",
        &[
            topic("/callz/", "Calls", 'f'),
            topic("/latencyz/", "Latency", 'l'),
            topic("/denialz/", "Recent Denials", 'd'),
            topic("/callerz/", "Callers", 'u'),
            topic("/poolz/", "Pools", 'p'),
            topic("/deliveryz/", "Deliveries", 'w'),
        ],
    ),
    (
        "Policy",
        &[
            topic("/configz/", "Configuration", 'c'),
            topic("/historyz/", "Snapshot History", 'y'),
            topic("/rulez/", "Rules", 'b'),
            topic("/routesz/", "Routes", 'r'),
            topic("/explainz/", "Explain a Check", 'e'),
            topic("/handlerz/", "Handlers", 'a'),
            topic("/quotaz/", "Quotas", 'q'),
            topic("/cachez/", "Check Cache", 'k'),
        ],
    ),
    PROCESS_TOPICS,
];

/// A page without the layout.
#[derive(Debug)]
pub struct Page {
    /// Its topic.
    pub path: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// The sentence below the heading.
    pub lead: Markup,
    /// The content.
    pub body: Markup,
    /// Path of the JSON form; empty if there is none.
    pub json: &'static str,
}

impl Page {
    /// The response with status 200.
    pub fn answer(self, server: &Introspection) -> Response {
        self.answer_with(StatusCode::OK, server)
    }

    /// The response with another status.
    pub fn answer_with(self, status: StatusCode, server: &Introspection) -> Response {
        document(status, framed(&self, server))
    }
}

/// The rows of a page; a worker that wakes up runs before the next one, if the page has taken its time.
pub(super) fn in_turns<T>(rows: &[T]) -> impl Iterator<Item = &T> {
    rows.iter().inspect(|_| let_others_run())
}

fn document(status: StatusCode, markup: Markup) -> Response {
    let_others_run();
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    (status, [(header::CONTENT_TYPE, kind)], markup.into_string()).into_response()
}

fn head(title: &str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            title { (title) " · ControlZ" }
            link rel="icon" href=(assets::ICON);
            link rel="stylesheet" href=(assets::style_path());
            script src=(assets::script_path()) {}
        }
    }
}

fn framed(page: &Page, server: &Introspection) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(page.title))
            body {
                a.skip href="#main" { "Skip to content" }
                (top_bar(server))
                div.frame {
                    (navigation(page.path, server.program.topics))
                    main #main tabindex="-1" {
                        header.title {
                            h1 { (page.title) }
                            p.lead { (page.lead) }
                            @if !page.json.is_empty() {
                                a.json href=(page.json) title="The same as JSON" { "JSON" }
                            }
                        }
                        (page.body)
                    }
                }
                (help(server.program.topics))
            }
        }
    }
}

fn top_bar(server: &Introspection) -> Markup {
    let_others_run();
    let degraded = server.degradations.list();
    let (kind, state, why) = match server.readiness() {
        (false, why) => ("bad", "not ready", why),
        (true, why) if degraded.is_empty() => ("good", "ready", why),
        (true, _) => {
            let why: Vec<String> =
                degraded.iter().map(|(name, degradation)| format!("{name}: {}", degradation.why)).collect();
            ("warn", "degraded", why.join(", "))
        }
    };
    html! {
        header.top {
            a.brand href="/" aria-label="mixer" { (logo()) span { "mixer" } }
            div.instance #instance data-live {
                // A tooltip has no markup.
                span.pill.(kind) #state title=(why.replace('`', "")) { (state) }
                b.host title="The pod, or else the host" data-process=(super::host::process()) { (super::host::pod()) }
                span.dim.wide { (server.instance()) }
                @if let Some(badge) = (server.program.badge)() {
                    a.dim href=(badge.path) title=(badge.title) { (badge.text) }
                }
                @if server.guard.read_only { span.pill title="Started with --ctrlz-readonly" { "read only" } }
            }
            div.tools {
                span #refreshed .dim role="status" {}
                button.tool #pause type="button" title="Pause or resume updates (p)" aria-pressed="false" hidden { "Pause" }
                button.tool #theme type="button" title="Light or dark (t)" hidden { "Theme" }
                button.tool #keys type="button" title="Keys (?)" hidden { "?" }
            }
        }
    }
}

fn logo() -> Markup {
    PreEscaped(
        r##"<svg viewBox="0 0 24 24" width="22" height="22" aria-hidden="true"><g fill="none" stroke="currentColor" stroke-width="2" stroke-linecap="round"><path d="M5 3v6M5 15v6M12 3v10M12 19v2M19 3v2M19 11v10"/></g><g fill="currentColor"><circle cx="5" cy="12" r="2.6"/><circle cx="12" cy="16" r="2.6"/><circle cx="19" cy="8" r="2.6"/></g></svg>"##
            .to_owned(),
    )
}

fn navigation(here: &str, topics: &[TopicGroup]) -> Markup {
    let_others_run();
    html! {
        nav.topics aria-label="Topics" {
            // On narrow pages the list is hidden until the box is ticked.
            input #menu type="checkbox" aria-label="Show topics";
            label.menu for="menu" { "Topics" }
            div.list {
                @for (group, topics) in topics {
                    div.group {
                        @if !group.is_empty() { h2 { (group) } }
                        ul {
                            @for topic in *topics {
                                li {
                                    a href=(topic.path) data-key=(topic.key) aria-current=[(topic.path == here).then_some("page")] {
                                        (topic.name)
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn help(topics: &[TopicGroup]) -> Markup {
    let_others_run();
    html! {
        dialog #help aria-label="Keys" {
            h2 { "Keys" }
            dl.keys {
                dt { kbd { "/" } } dd { "filter" }
                dt { kbd { "p" } } dd { "pause or resume updates" }
                dt { kbd { "t" } } dd { "light, dark or as the system" }
                dt { kbd { "[" } " " kbd { "]" } } dd { "previous and next topic" }
                dt { kbd { "?" } } dd { "this list" }
                @for topic in topics.iter().flat_map(|(_, topics)| *topics) {
                    dt { kbd { "g" } " " kbd { (topic.key) } } dd { (topic.name) }
                }
            }
            form method="dialog" { button autofocus { "Close" } }
        }
    }
}

/// The 404 page.
pub fn not_found(server: &Introspection) -> Response {
    let page = Page {
        path: "",
        title: "Not found",
        lead: html! { "There is no such page." },
        body: html! { p { a href="/" { "Overview" } } },
        json: "",
    };
    page.answer_with(StatusCode::NOT_FOUND, server)
}

/// The sign-in page.
pub(super) fn login(again: bool) -> Response {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            (head("Sign in"))
            body.alone {
                main #main {
                    h1 { (logo()) " mixer" }
                    p { "This server asks for the token in the file given with " code { "--ctrlz-token-file" } "." }
                    form.stack method="post" action="/login" {
                        label { span { "Token" } input type="password" name="token" autocomplete="current-password" autofocus required; }
                        @if again { p.notice.bad role="alert" { "Wrong token." } }
                        button.primary { "Sign in" }
                    }
                }
            }
        }
    };
    document(StatusCode::UNAUTHORIZED, markup)
}

/// The page after a stop request.
pub(super) fn stopping(server: &Introspection) -> Response {
    let page = Page {
        path: "",
        title: "Stopping",
        lead: html! { "The server refuses new calls and answers those in flight." },
        body: html! {
            p.notice #stopping data-stopping {
                "When this page can no longer be refreshed, the process has exited. See its log."
            }
        },
        json: "",
    };
    page.answer_with(StatusCode::ACCEPTED, server)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn keys_are_unique() {
        let all = TOPICS.iter().filter(|(group, _)| *group != "Process");
        let topics: Vec<&Topic> = all.chain([&PROCESS_TOPICS]).flat_map(|(_, topics)| *topics).collect();
        let keys: BTreeSet<char> = topics.iter().map(|t| t.key).collect();
        assert_eq!(keys.len(), topics.len());
        assert!(topics.iter().all(|t| t.path.ends_with('/')));
    }
}
