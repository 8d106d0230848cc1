//! Configuration directories of the scenarios.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Deserialize as _;
use serde_yaml::Value;

use super::rules;

/// The directory of configuration files.
pub(crate) fn testdata() -> &'static Path {
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

/// The attributes of the sample configuration.
pub(crate) fn vocabulary(into: &Path) -> Result<()> {
    std::fs::copy(testdata().join("config/attributes.yaml"), into.join("attributes.yaml"))?;
    Ok(())
}

/// Metrics with 17 dimensions: the four of the sample configuration, repeated under other names up to `metrics`. With `log`, reports are
/// also logged to that file.
pub(crate) fn telemetry(into: &Path, metrics: usize, log: Option<&Path>) -> Result<()> {
    vocabulary(into)?;
    let sample = std::fs::read_to_string(testdata().join("config/metrics-http.yaml"))?;
    std::fs::write(into.join("metrics-http.yaml"), multiply(&sample, metrics)?)?;
    if let Some(log) = log {
        let text = std::fs::read_to_string(testdata().join("bench/access-log.yaml"))?;
        std::fs::write(into.join("access-log.yaml"), text.replace("@LOG@", &log.to_string_lossy()))?;
    }
    Ok(())
}

/// A file with this many metrics, their instances and the rule that uses them.
#[expect(clippy::indexing_slicing, reason = "the file is the project's own")]
fn multiply(text: &str, metrics: usize) -> Result<String> {
    let mut documents = serde_yaml::Deserializer::from_str(text)
        .map(|document| Ok(Value::deserialize(document)?))
        .collect::<Result<Vec<Value>>>()?;
    let kind = |document: &Value, kind: &str| document["kind"] == kind;
    let instances: Vec<Value> = documents.iter().filter(|d| kind(d, "instance")).cloned().collect();
    documents.retain(|d| !kind(d, "instance"));
    let handler = documents.iter_mut().find(|d| kind(d, "handler")).context("no handler")?;
    let entries = handler["spec"]["params"]["metrics"].as_sequence_mut().context("no metrics")?;
    let sample = std::mem::take(entries);
    anyhow::ensure!(sample.len() == instances.len(), "a metric for every instance");
    let (mut names, mut copies) = (Vec::new(), Vec::new());
    for (number, (entry, instance)) in sample.iter().zip(&instances).cycle().take(metrics).enumerate() {
        let again = number / sample.len();
        let (mut entry, mut instance) = (entry.clone(), instance.clone());
        if again > 0 {
            let rename = |value: &mut Value, separator: char| -> Result<String> {
                let name = format!("{}{separator}{again}", value.as_str().context("no name")?);
                *value = name.clone().into();
                Ok(name)
            };
            rename(&mut entry["name"], '_')?;
            let name = rename(&mut instance["metadata"]["name"], '-')?;
            entry["instanceName"] = format!("{name}.instance.istio-system").into();
        }
        names.push(instance["metadata"]["name"].clone());
        entries.push(entry);
        copies.push(instance);
    }
    documents.extend(copies);
    let rule = documents.iter_mut().find(|d| kind(d, "rule")).context("no rule")?;
    rule["spec"]["actions"][0]["instances"] = names.into();
    let texts = documents.iter().map(serde_yaml::to_string).collect::<Result<Vec<_>, _>>()?;
    Ok(texts.join("---\n"))
}

/// Many rules.
pub(crate) fn many_rules(into: &Path, count: usize) -> Result<()> {
    vocabulary(into)?;
    for (name, text) in rules::files(count, None) {
        std::fs::write(into.join(name), text)?;
    }
    Ok(())
}

/// Replaces the file that contains `rule` atomically, with the rule exempt or not.
pub(crate) fn edit_rule(directory: &Path, rule: usize, count: usize, exempt: bool) -> Result<()> {
    let first = rule / rules::RULES_PER_FILE * rules::RULES_PER_FILE;
    let (name, text) = rules::file(first, count, exempt.then_some(rule));
    let aside = directory.join(".next");
    std::fs::write(&aside, text)?;
    std::fs::rename(&aside, directory.join(name))?;
    Ok(())
}
