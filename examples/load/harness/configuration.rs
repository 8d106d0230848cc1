//! Configuration directories of the scenarios.

use std::path::Path;

use anyhow::{Context as _, Result};

use super::rules;

/// Where the project's configuration files are.
fn testdata() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata"))
}

/// The sample configuration.
pub(crate) fn sample(into: &Path) -> Result<()> {
    for entry in std::fs::read_dir(testdata().join("config"))? {
        let path = entry?.path();
        std::fs::copy(&path, into.join(path.file_name().context("a file without a name")?))?;
    }
    Ok(())
}

/// Four metrics in 17 dimensions; with `log`, every report is also logged there.
pub(crate) fn telemetry(into: &Path, log: Option<&Path>) -> Result<()> {
    for name in ["attributes.yaml", "metrics-http.yaml"] {
        std::fs::copy(testdata().join("config").join(name), into.join(name))?;
    }
    if let Some(log) = log {
        let text = std::fs::read_to_string(testdata().join("bench/access-log.yaml"))?;
        std::fs::write(into.join("access-log.yaml"), text.replace("@LOG@", &log.to_string_lossy()))?;
    }
    Ok(())
}

/// Many rules.
pub(crate) fn many_rules(into: &Path, count: usize) -> Result<()> {
    std::fs::copy(testdata().join("config/attributes.yaml"), into.join("attributes.yaml"))?;
    for (name, text) in rules::files(count, None) {
        std::fs::write(into.join(name), text)?;
    }
    Ok(())
}

/// Rewrites the one file that holds `rule`: exempt or not. The file is replaced in one step.
pub(crate) fn edit_rule(directory: &Path, rule: usize, count: usize, exempt: bool) -> Result<()> {
    let first = rule / rules::RULES_PER_FILE * rules::RULES_PER_FILE;
    let (name, text) = rules::file(first, count, exempt.then_some(rule));
    let aside = directory.join(".next");
    std::fs::write(&aside, text)?;
    std::fs::rename(&aside, directory.join(name))?;
    Ok(())
}
