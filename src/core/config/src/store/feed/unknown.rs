//! What of a server is unknown, and what its objects take.

use std::sync::Arc;

use mixer_base::json;

use crate::store::{Broken, ReadObject, StoreContents};
use crate::{Diagnostic, FieldPath};

/// What an object takes beside its text and its annotations, with what is built of it, and how often it takes its text: once as it is, and
/// twice in conditions, parameters and tables. Measured: 15 000 rules of 370 bytes take 2.8 KB each.
pub(super) const BYTES_PER_OBJECT: usize = 2 << 10;
pub(super) const TEXTS_PER_OBJECT: usize = 3;
/// Values and keys of an object that count as that, and what each beyond takes. Measured: 10 handlers of `memquota` with 18 000 overrides each,
/// 13 MB with 1.6 million values, take 109 MB.
const VALUES_PER_OBJECT: usize = 64;
pub(super) const BYTES_PER_VALUE: usize = 48;
/// What a problem of an object takes beside the text of the object.
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

/// What an object takes while it is held and serves, in bytes: three times its text, its annotations once more, 2 KiB, and 48 bytes for each
/// value of its spec beyond the first 64. Cost: a pass over the text.
pub fn object_size(object: &ReadObject) -> usize {
    match object {
        Ok(resource) => {
            let text = &resource.origin.text;
            // Nothing is built of labels and annotations.
            let spec = text.find("\"spec\":").and_then(|at| text.get(at..)).unwrap_or_default();
            let values = json::values(spec.as_bytes()).saturating_sub(VALUES_PER_OBJECT);
            TEXTS_PER_OBJECT * text.len()
                + BYTES_PER_VALUE * values
                + resource.annotations.size()
                + BYTES_PER_OBJECT
        }
        Err(broken) => broken.text.len() + BYTES_PER_PROBLEM,
    }
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
            "remove objects, of which each counts {TEXTS_PER_OBJECT} times its text and {BYTES_PER_OBJECT} bytes, and \
             {BYTES_PER_VALUE} for each value beyond the first {VALUES_PER_OBJECT}, or labels and annotations, or have several servers with a part each"
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
