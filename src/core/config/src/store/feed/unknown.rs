//! What of a server is unknown, and what its objects take.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::store::{Broken, ReadObject, StoreContents};
use crate::{Diagnostic, FieldPath};

/// What an object takes beside its text and its labels: its key and places, its tree, and what is built of it. Measured with small instances.
const BYTES_PER_OBJECT: usize = 3 << 10;
/// What a label or an annotation takes beside its text, and a problem of an object beside the text of the object.
const BYTES_PER_LABEL: usize = 128;
const BYTES_PER_PROBLEM: usize = 1 << 10;

/// A collection of which it is unknown what it has.
pub(super) fn unknown(file: Arc<str>, why: &str, keeps_last: bool) -> Broken {
    let problem = Diagnostic::error("store-unreadable", FieldPath::root(), format!("{file}: {why}"))
        .with_hint("what it had before stays in effect; what may refuse fewer requests waits for it");
    let problem = Diagnostic { file: Some(Arc::clone(&file)), ..problem };
    Broken { file, document: None, text: "".into(), problem, keeps_last }
}

pub(super) fn too_much(max_bytes: usize) -> String {
    format!("all objects have more than {} MiB", max_bytes >> 20)
}

/// The name of the origin of a collection.
pub(super) fn origin_of(root: &str, collection: &str) -> Arc<str> {
    format!("{root}/{collection}").into()
}

/// The collection, or its first segment, of an object of an earlier process, whatever server it was then.
pub(super) fn first_segment<'f>(root: &str, file: &'f str) -> Option<&'f str> {
    let (scheme, _) = root.split_once("://")?;
    let (_, name) = file.strip_prefix(scheme)?.strip_prefix("://")?.split_once('/')?;
    Some(name.split_once('/')?.0)
}

/// Whether it stands for an object for which there was no room.
pub(super) fn is_left_out(object: &ReadObject) -> bool {
    object.as_ref().err().is_some_and(|broken| broken.text.is_empty())
}

/// What an object takes, in bytes: a fixed part, its text, and its labels and annotations once more, which are also held one by one.
pub(super) fn size(object: &ReadObject) -> usize {
    let entries = |entries: &BTreeMap<String, String>| {
        let sizes = entries.iter().map(|(name, value)| name.len() + value.len() + BYTES_PER_LABEL);
        sizes.sum::<usize>()
    };
    let rest = match object {
        Ok(resource) => {
            resource.origin.text.len() + entries(&resource.envelope.labels) + entries(&resource.annotations)
        }
        Err(broken) => broken.text.len() + BYTES_PER_PROBLEM,
    };
    rest + BYTES_PER_OBJECT
}

/// An object for which there is no room.
pub(super) fn no_room(object: ReadObject, max_bytes: usize) -> Broken {
    let file = match object {
        Ok(resource) => Arc::clone(&resource.origin.file),
        Err(broken) => broken.file,
    };
    let text = format!("{file}: it is not read: {}", too_much(max_bytes));
    let problem = Diagnostic::error("store-unreadable", FieldPath::root(), text)
        .with_hint(format!(
            "remove objects, which count {BYTES_PER_OBJECT} bytes more than they have, labels or annotations, of which each counts \
             {BYTES_PER_LABEL} bytes more than it has, or have several servers with a part each"
        ));
    let problem = Diagnostic { file: Some(Arc::clone(&file)), ..problem };
    Broken { file, document: None, text: "".into(), problem, keeps_last: false }
}

/// The contents before everything was received.
pub(super) fn unread(root: &str) -> StoreContents {
    let why = "not read yet";
    let problem = Diagnostic::error("store-unreadable", FieldPath::root(), format!("{root}: {why}"))
        .with_hint("ControlZ and /readyz?verbose say what it waits for");
    let problem = Diagnostic { file: Some(root.into()), ..problem };
    let broken = Broken {
        file: root.into(),
        document: None,
        text: "".into(),
        problem: problem.clone(),
        keeps_last: false,
    };
    StoreContents {
        broken: vec![broken],
        diagnostics: vec![problem],
        unavailable: Some(why.to_owned()),
        is_of_server: true,
        ..StoreContents::default()
    }
}
