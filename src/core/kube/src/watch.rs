//! Lists in pages, and watches: the changes of objects as they happen.

use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use serde::Deserialize;

use crate::client::{Client, Stream, place, shape};
use crate::error::{ApiStatus, Error};
use crate::object::Object;
use crate::selection::Selection;

/// Most bytes of one event.
const MAX_EVENT: usize = 16 << 20;

/// A page of a list.
#[derive(Deserialize)]
#[serde(bound = "T: Object")]
pub(crate) struct Page<T> {
    #[serde(default)]
    pub(crate) metadata: PageMetadata,
    /// `null` without objects.
    #[serde(default)]
    pub(crate) items: Option<Vec<T>>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PageMetadata {
    /// The version of the list, from which a watch goes on.
    pub(crate) resource_version: String,
    /// Where the next page begins; empty on the last one.
    #[serde(rename = "continue")]
    pub(crate) next: String,
}

/// A page of a list: at most `limit` objects, after those of the page with this `next`.
///
/// Errors: as of a request; an answer without a version is no list, however empty.
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
    let path = selection.url(&parameters);
    let page: Page<T> = client.get(&path, selection.form.of_list()).await?;
    if page.metadata.resource_version.is_empty() {
        let (server, path) = (client.server(), place(&path).to_owned());
        return Err(Error::Malformed { server, path, why: "a list without a version".to_owned() });
    }
    Ok(page)
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
        Ok(Self { stream, path: place(&path).to_owned(), buffer: BytesMut::new(), searched: 0 })
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
        /// The type stands first, and says what the object is.
        #[derive(Deserialize)]
        struct Typed<'l> {
            #[serde(rename = "type", borrow)]
            kind: std::borrow::Cow<'l, str>,
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
        let Typed { kind } = read(self, line)?;
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
