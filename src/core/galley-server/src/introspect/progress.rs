//! How far a change is: which sinks acknowledged it, which refused it and why, of which the answer is missing.

use std::sync::Arc;

use serde::Serialize;

use mixer_introspect::parameter;
use mixer_mcp::{Publication, SinkName, Target};

use super::status::{API_VERSION, Refusal, of_refusal};
use super::{Plane, status};

/// The answer to `/progressj/`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ProgressReport {
    api_version: &'static str,
    kind: &'static str,
    /// What was asked for.
    target: String,
    /// Whether it was published.
    is_published: bool,
    /// Changes that are not published yet.
    pending_events: u64,
    /// What is not published yet of each source, and why; those of `withheld` among them.
    waiting: Vec<status::Waiting>,
    /// Sources with changes that they have read and do not publish, and why.
    withheld: Vec<Withheld>,
    /// What the answer is about: the version of the collection that has the resource which was asked for.
    resolved: Option<String>,
    acknowledged: Vec<Named>,
    refused: Vec<RefusedBy>,
    outstanding: Vec<Outstanding>,
    /// Why nothing can be waited for.
    problem: Option<String>,
}

/// A source that publishes nothing for now.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Withheld {
    source: String,
    why: String,
    /// Whether that ends by itself after some time.
    is_delay: bool,
}

/// A sink.
#[derive(Debug, Clone, Serialize)]
struct Named {
    id: u64,
    peer: String,
    node: String,
}

/// A sink that refused.
#[derive(Debug, Serialize)]
struct RefusedBy {
    sink: Named,
    collection: String,
    #[serde(flatten)]
    refusal: Refusal,
}

/// A sink that has not answered.
#[derive(Debug, Serialize)]
struct Outstanding {
    sink: Named,
    collection: String,
}

fn named(sink: &SinkName) -> Named {
    Named { id: sink.id, peer: sink.peer.clone(), node: sink.node.clone() }
}

/// The progress of `target`: `latest`, the number of a publication, `COLLECTION@VERSION`, `KIND/NAMESPACE/NAME` or
/// `KIND/NAMESPACE/NAME@VERSION`. With `look=1` sources look for changes before, so that whatever changed before the request is published
/// or pending.
pub(super) async fn progress_after_look(plane: &Plane, parameters: &[(String, String)]) -> ProgressReport {
    if let (Some(galley), false) = (&plane.galley, parameter(parameters, "look").is_empty()) {
        galley.look().await;
    }
    progress(plane, parameters)
}

fn progress(plane: &Plane, parameters: &[(String, String)]) -> ProgressReport {
    let asked = parameter(parameters, "target");
    let groups = status::groups(plane);
    let mut report = ProgressReport {
        api_version: API_VERSION,
        kind: "GalleyProgress",
        target: asked.to_owned(),
        is_published: false,
        pending_events: groups.iter().map(|group| group.pending_events).sum(),
        waiting: groups.into_iter().flat_map(|group| group.waiting).collect(),
        withheld: withheld(plane),
        resolved: None,
        acknowledged: Vec::new(),
        refused: Vec::new(),
        outstanding: Vec::new(),
        problem: None,
    };
    let target = match target(plane, asked) {
        Ok(Some(target)) => target,
        Ok(None) => return report,
        Err(problem) => return ProgressReport { problem: Some(problem), ..report },
    };
    let Some(progress) = plane.publications.cache().ledger().progress(&target) else { return report };
    if let Target::Version { collection, version } = &target {
        report.resolved = Some(format!("{collection}@{version}"));
    }
    report.is_published = true;
    report.acknowledged = progress.acknowledged.iter().map(named).collect();
    report.refused = progress
        .refused
        .iter()
        .map(|(sink, collection, refused)| RefusedBy {
            sink: named(sink),
            collection: collection.to_string(),
            refusal: of_refusal(refused),
        })
        .collect();
    report.outstanding = progress
        .outstanding
        .iter()
        .map(|(sink, collection)| Outstanding { sink: named(sink), collection: collection.to_string() })
        .collect();
    report
}

fn withheld(plane: &Plane) -> Vec<Withheld> {
    let sources = plane.galley.iter().flat_map(|galley| galley.state().sources);
    sources
        .filter_map(|source| {
            Some(Withheld { why: source.held?, source: source.name, is_delay: source.is_delayed })
        })
        .collect()
}

/// `None`: it was not published yet. Errors: it has no meaning.
fn target(plane: &Plane, asked: &str) -> Result<Option<Target>, String> {
    let latest = plane.publications.latest();
    if matches!(asked, "" | "latest") {
        return Ok((latest > Publication::default()).then_some(Target::Publication(latest)));
    }
    if let Ok(number) = asked.parse::<u64>() {
        return Ok((number <= latest.0).then_some(Target::Publication(Publication(number))));
    }
    let (what, version) = asked.rsplit_once('@').map_or((asked, None), |(what, v)| (what, Some(v)));
    if mixer_schema::by_collection(what).is_some() {
        let version = version.ok_or("name a version of the collection: COLLECTION@VERSION")?;
        return Ok(Some(Target::Version { collection: what.into(), version: version.into() }));
    }
    of_resource(plane, what, version)
}

/// The current version of the collection that has the resource, once it has it.
fn of_resource(plane: &Plane, what: &str, version: Option<&str>) -> Result<Option<Target>, String> {
    let (kind, name) = what
        .split_once('/')
        .ok_or_else(|| format!("`{what}` is no publication, COLLECTION@VERSION or KIND/NAMESPACE/NAME"))?;
    let is_named = |known: &&mixer_schema::Kind| {
        known.kind.eq_ignore_ascii_case(kind) || known.plural == kind || known.singular == kind
    };
    let kind = mixer_schema::kinds()
        .iter()
        .find(is_named)
        .ok_or_else(|| format!("`{kind}` is no kind of resource"))?;
    let cache = plane.publications.cache();
    let Some(snapshot) = cache.snapshot(mixer_schema::group_of(kind.collection)) else { return Ok(None) };
    let Some(collection) = snapshot.get(kind.collection) else { return Ok(None) };
    let found = collection.content().get(name);
    let is_there = found.is_some_and(|resource| version.is_none_or(|version| *resource.version == *version));
    Ok(is_there.then(|| Target::Version {
        collection: Arc::clone(collection.name()),
        version: Arc::clone(collection.version()),
    }))
}
