//! Lists in pages, and watches: the changes of objects as they happen.

use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use serde::Deserialize;

use crate::client::{Client, Stream, place, shape};
use crate::error::{ApiStatus, Error};
use crate::object::Object;
use crate::selection::{Said, Selection};

/// Most bytes of one event.
const MAX_EVENT: usize = 16 << 20;

/// A page of a list.
#[derive(Deserialize)]
#[serde(bound = "T: Object", rename_all = "camelCase")]
pub(crate) struct Page<T> {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    pub(crate) metadata: PageMetadata,
    #[serde(default = "Items::missing")]
    items: Items<T>,
}

/// The objects of a page.
enum Items<T> {
    /// There is no such member.
    Missing,
    /// The member is `null`.
    Null,
    /// The objects.
    Listed(Vec<T>),
}

impl<T> Items<T> {
    fn missing() -> Self {
        Items::Missing
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Items<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::<Vec<T>>::deserialize(deserializer)?.map_or(Items::Null, Items::Listed))
    }
}

impl<T> Page<T> {
    /// The objects.
    pub(crate) fn items(&self) -> &[T] {
        match &self.items {
            Items::Listed(items) => items,
            Items::Missing | Items::Null => &[],
        }
    }

    /// The objects.
    pub(crate) fn into_items(self) -> Vec<T> {
        match self.items {
            Items::Listed(items) => items,
            Items::Missing | Items::Null => Vec::new(),
        }
    }

    /// What keeps it from being a page of what was asked for. An answer that is taken for an empty list removes everything.
    fn fault(&self, selection: &Selection) -> Option<String> {
        if self.metadata.resource_version.is_empty() {
            return Some("a list without a version".to_owned());
        }
        let said = Said { kind: (&*self.kind).into(), api_version: (&*self.api_version).into() };
        let fault = selection.fault_of_list(&said).map(|fault| format!("no list of the kind: {fault}"));
        fault.or_else(|| match &self.items {
            Items::Missing => Some("a list without the member `items`".to_owned()),
            Items::Null if !selection.may_be_null() => Some("a list whose `items` are null".to_owned()),
            Items::Null | Items::Listed(_) => None,
        })
    }
}

#[derive(Clone, Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PageMetadata {
    /// The version of the list, from which a watch goes on.
    pub(crate) resource_version: String,
    /// Where the next page begins; empty on the last one.
    #[serde(rename = "continue")]
    pub(crate) next: String,
    /// About how many objects follow this page, if the server knows.
    pub(crate) remaining_item_count: Option<i64>,
}

/// A page of a list: at most `limit` objects, after those of the page with this `next`.
///
/// Errors: as of [`page`].
pub(crate) async fn list<T: Object>(
    client: &Client,
    selection: &Selection,
    limit: usize,
    next: &str,
) -> Result<Page<T>, Error> {
    let limit = limit.to_string();
    let mut parameters = vec![("limit", &*limit)];
    if !next.is_empty() {
        parameters.push(("continue", next));
    }
    page(client, selection, &parameters).await
}

/// A page of a list, with these parameters of the URL.
///
/// Errors: as of a request; an answer without a version or without `items`, or of another kind, is no list, however empty.
pub(crate) async fn page<T: Object>(
    client: &Client,
    selection: &Selection,
    parameters: &[(&str, &str)],
) -> Result<Page<T>, Error> {
    let path = selection.url(parameters);
    let page: Page<T> = client.get(&path, selection.form.of_list()).await?;
    match page.fault(selection) {
        None => Ok(page),
        Some(why) => {
            let (server, path) = (client.server(), place(&path).to_owned());
            Err(Error::Malformed { server, path, why })
        }
    }
}

/// A change.
#[derive(Debug, PartialEq)]
pub(crate) enum Event<T> {
    /// The object was made, or changed.
    Applied(T),
    /// The object was deleted; its last state.
    Deleted(T),
    /// Nothing changed up to this version.
    Bookmark(String),
}

/// The changes after a version.
pub(crate) struct Watch {
    stream: Stream,
    path: String,
    selection: Selection,
    buffer: BytesMut,
    /// How much of the buffer has no line feed.
    searched: usize,
}

impl Watch {
    /// Watches for about `lasts`, after which the server ends it.
    pub(crate) async fn open(
        client: &Client,
        selection: &Selection,
        version: &str,
        lasts: Duration,
    ) -> Result<Self, Error> {
        let seconds = lasts.as_secs().to_string();
        let parameters = [
            ("watch", "1"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", version),
            ("timeoutSeconds", &*seconds),
        ];
        let path = selection.url(&parameters);
        let stream = client.stream(&path, selection.form.of_watch()).await?;
        let (path, selection) = (place(&path).to_owned(), selection.clone());
        Ok(Self { stream, path, selection, buffer: BytesMut::new(), searched: 0 })
    }

    /// The next change, without waiting; `None` if none has arrived.
    ///
    /// Errors: as of [`next`](Self::next).
    pub(crate) fn arrived<T: Object>(&mut self) -> Result<Option<Event<T>>, Error> {
        let rest = self.buffer.get(self.searched..).unwrap_or_default();
        let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
            self.searched = self.buffer.len();
            if self.searched > MAX_EVENT {
                let (server, path) = (self.stream.server().to_owned(), self.path.clone());
                return Err(Error::TooLarge { server, path, bound: MAX_EVENT });
            }
            return Ok(None);
        };
        let line = self.buffer.split_to(self.searched + end);
        self.buffer.advance(1);
        self.searched = 0;
        self.event(&line).map(Some)
    }

    /// The next change; `None` when the server has ended the watch. Cancel safe.
    ///
    /// Errors: the connection broke, or what arrived is no change. [`Error::is_gone`]: the version is too old.
    pub(crate) async fn next<T: Object>(&mut self) -> Result<Option<Event<T>>, Error> {
        loop {
            if let Some(event) = self.arrived()? {
                return Ok(Some(event));
            }
            match self.stream.chunk().await? {
                Some(chunk) => self.buffer.extend_from_slice(&chunk),
                None => return Ok(None),
            }
        }
    }

    fn event<T: Object>(&self, line: &[u8]) -> Result<Event<T>, Error> {
        /// The type says what the object is.
        #[derive(Deserialize)]
        struct Typed<'l> {
            #[serde(rename = "type", borrow)]
            kind: std::borrow::Cow<'l, str>,
            #[serde(borrow, default)]
            object: Said<'l>,
        }
        #[derive(Deserialize)]
        struct Of<T> {
            object: T,
        }
        #[derive(Deserialize)]
        struct Versioned {
            metadata: Version,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Version {
            resource_version: String,
        }
        fn read<'l, V: Deserialize<'l>>(watch: &Watch, line: &'l [u8]) -> Result<V, Error> {
            serde_json::from_slice(line).map_err(|error| watch.malformed(shape(&error)))
        }
        let Typed { kind, object } = read(self, line)?;
        if matches!(&*kind, "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK")
            && let Some(fault) = self.selection.fault_of_object(&object)
        {
            return Err(self.malformed(&format!("no change of the kind: {fault}")));
        }
        match &*kind {
            "ADDED" | "MODIFIED" => Ok(Event::Applied(read::<Of<T>>(self, line)?.object)),
            "DELETED" => Ok(Event::Deleted(read::<Of<T>>(self, line)?.object)),
            "BOOKMARK" => {
                Ok(Event::Bookmark(read::<Of<Versioned>>(self, line)?.object.metadata.resource_version))
            }
            "ERROR" => {
                let status = read::<Of<ApiStatus>>(self, line)?.object;
                let (server, path) = (self.stream.server().to_owned(), self.path.clone());
                Err(Error::Refused { server, path, status, after: Duration::ZERO })
            }
            _ => Err(self.malformed("an event of an unknown type")),
        }
    }

    fn malformed(&self, why: &str) -> Error {
        let (server, path) = (self.stream.server().to_owned(), self.path.clone());
        Error::Malformed { server, path, why: why.to_owned() }
    }
}
