//! Links of the pages: files exist, headings too, README names every page, and blocks of files are those files.

use std::collections::BTreeSet;

use regex::Regex;

use crate::{pages, read, repository};

/// The anchor that GitHub gives to a heading.
fn anchor(heading: &str) -> String {
    let heading = heading.trim().replace('`', "");
    // Of a link, its text.
    let link = Regex::new(r"\[([^\]]*)\]\([^)]*\)").expect("an expression");
    let heading = link.replace_all(&heading, "$1").to_lowercase();
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The page without its fenced blocks.
fn prose(page: &str) -> String {
    let mut in_fence = false;
    let mut lines = Vec::new();
    for line in page.lines() {
        if line.starts_with("```") {
            in_fence = !in_fence;
        } else if !in_fence {
            lines.push(line);
        }
    }
    lines.join("\n")
}

fn anchors(page: &str) -> BTreeSet<String> {
    prose(page)
        .lines()
        .filter_map(|line| line.strip_prefix('#'))
        .map(|h| anchor(h.trim_start_matches('#')))
        .collect()
}

#[test]
fn every_link_leads_somewhere() {
    let link = Regex::new(r"\]\(([^)\s]+)\)").expect("an expression");
    let code = Regex::new(r"`[^`\n]*`").expect("an expression");
    let mut broken = Vec::new();
    let mut followed = 0;
    for (path, page) in pages() {
        let text = prose(&page);
        for found in link.captures_iter(&code.replace_all(&text, "")) {
            let target = &found[1];
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            followed += 1;
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let directory = repository(&path).parent().expect("a directory").to_owned();
            let there = if file.is_empty() { repository(&path) } else { directory.join(file) };
            if !there.exists() {
                broken.push(format!("{path}: {target}: no such file"));
            } else if !heading.is_empty() {
                let page = std::fs::read_to_string(&there).unwrap_or_default();
                if !anchors(&page).contains(heading) {
                    broken.push(format!("{path}: {target}: no such heading"));
                }
            }
        }
    }
    assert!(followed > 150, "{followed} links");
    assert_eq!(broken, Vec::<String>::new());
}

#[test]
fn the_readme_links_every_page() {
    let readme = read("README.md");
    for (path, _) in pages() {
        assert!(
            path == "README.md" || readme.contains(&format!("]({path})")),
            "README.md has no link to {path}"
        );
    }
}

#[test]
fn blocks_of_files_are_the_files() {
    let marked = Regex::new(r"(?m)^<!-- of: (\S+) -->\n```\w*\n((?s:.*?))^```$").expect("an expression");
    let mut compared = 0;
    for (path, page) in pages() {
        for found in marked.captures_iter(&page) {
            let (file, shown) = (read(&found[1]), &found[2]);
            assert!(file.contains(shown), "{path}: the block is not in {}:\n{shown}", &found[1]);
            compared += 1;
        }
    }
    assert!(compared >= 8, "{compared} blocks");
}
