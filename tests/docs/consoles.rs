//! The consoles of the pages: what they enter is run, and must show what they show.

use crate::pages;
use crate::support::reader::Reader;

/// Ports of the pages, of defaults too: the API, metrics of handlers, monitoring, ControlZ, Envoy, its upstream, its admin interface.
const PORTS: [&str; 7] = ["9091", "42422", "15014", "9876", "8000", "8081", "9901"];

/// Sections that a reader follows one after the other, by their page.
const FOLLOWED: [(&str, &[&str]); 5] = [
    ("README.md", &["The first five minutes"]),
    ("docs/envoy-start.md", &["A start"]),
    ("docs/cookbook.md", &["Recipes"]),
    ("docs/policy-tests.md", &["Tests"]),
    ("docs/proxy.md", &["A start", "Mixer"]),
];

/// Pages whose consoles have a test elsewhere.
const ELSEWHERE: [(&str, &str); 3] = [
    ("docs/mcp.md", "tests/galley/guide.rs"),
    ("docs/out-of-process.md", "tests/server/out_of_process.rs"),
    ("docs/writing-adapters.md", "tests/cli/tools.rs"),
];

fn follow(path: &str) {
    let (_, page) = pages().into_iter().find(|(name, _)| name == path).expect("a page");
    let (_, sections) = FOLLOWED.iter().find(|(name, _)| *name == path).expect("its sections");
    let mut reader = Reader::at_a_terminal(&PORTS);
    for section in *sections {
        reader.follow(&page, section);
    }
}

#[test]
fn the_first_five_minutes_are_as_the_readme_shows_them() {
    follow("README.md");
}

#[test]
fn the_start_with_envoy_is_as_its_page_shows_it() {
    follow("docs/envoy-start.md");
}

#[test]
fn recipes_do_what_the_cookbook_says() {
    follow("docs/cookbook.md");
}

#[test]
fn policy_tests_run_as_their_page_shows_it() {
    follow("docs/policy-tests.md");
}

#[test]
fn the_proxy_starts_as_its_page_shows_it() {
    follow("docs/proxy.md");
}

#[test]
fn every_console_is_run_by_a_test() {
    for (path, page) in pages() {
        let has_consoles = page.contains("\n```console\n");
        let followed = FOLLOWED.iter().find(|(name, _)| *name == path).map(|(_, sections)| *sections);
        let is_elsewhere = ELSEWHERE.iter().any(|(name, _)| *name == path);
        assert!(!has_consoles || followed.is_some() || is_elsewhere, "nobody runs the consoles of {path}");
        let mut section = "";
        for line in page.lines() {
            section = line.strip_prefix("## ").unwrap_or(section);
            if line == "```console"
                && let Some(followed) = followed
            {
                assert!(followed.contains(&section), "{path}: nobody runs the consoles of {section}");
            }
        }
    }
    for (page, test) in ELSEWHERE {
        assert!(crate::repository(test).is_file(), "{page}: there is no {test}");
    }
}
