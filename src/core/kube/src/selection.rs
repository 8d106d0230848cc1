//! Which objects are listed and watched.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;

use crate::client::foreign;

/// A kind of objects, as URLs name it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Resource {
    /// For example `apps`; empty for the core group.
    pub group: Cow<'static, str>,
    /// For example `v1`.
    pub version: Cow<'static, str>,
    /// For example `replicasets`.
    pub plural: Cow<'static, str>,
}

impl Resource {
    /// A kind that is known when the program is built.
    pub const fn new(group: &'static str, version: &'static str, plural: &'static str) -> Self {
        Self { group: Cow::Borrowed(group), version: Cow::Borrowed(version), plural: Cow::Borrowed(plural) }
    }

    /// The path of all objects of this kind, in a namespace or in all of them.
    pub fn path(&self, namespace: Option<&str>) -> String {
        let mut path = match &*self.group {
            "" => format!("/api/{}", self.version),
            group => format!("/apis/{group}/{}", self.version),
        };
        if let Some(namespace) = namespace {
            path.push_str("/namespaces/");
            path.push_str(&escaped(namespace));
        }
        path.push('/');
        path.push_str(&self.plural);
        path
    }

    /// As objects say it: `GROUP/VERSION`, or the version alone for the core group.
    pub(crate) fn api_version(&self) -> String {
        match &*self.group {
            "" => self.version.to_string(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// Whether it is defined by a custom resource definition, as far as its group tells.
    fn is_custom(&self) -> bool {
        self.group.contains('.') && !self.group.ends_with(".k8s.io")
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.group {
            "" => f.write_str(&self.plural),
            group => write!(f, "{}.{group}", self.plural),
        }
    }
}

/// What of the objects is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// All of it.
    #[default]
    Whole,
    /// The metadata, see [`PartialObject`](crate::PartialObject).
    Metadata,
}

impl Form {
    /// The media type of a list.
    pub(crate) fn of_list(self) -> &'static str {
        match self {
            Form::Whole => "application/json",
            Form::Metadata => {
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;q=0.5"
            }
        }
    }

    /// The media type of the objects in a watch.
    pub(crate) fn of_watch(self) -> &'static str {
        match self {
            Form::Whole => "application/json",
            Form::Metadata => {
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;q=0.5"
            }
        }
    }
}

/// The kind and API version of objects with their metadata alone.
const PARTIAL: &str = "PartialObjectMetadata";
const META: &str = "meta.k8s.io/v1";

/// What an answer says to be; empty if it does not.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Said<'a> {
    #[serde(borrow)]
    pub(crate) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) api_version: Cow<'a, str>,
}

/// Which objects are listed and watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// Their kind, for example `ReplicaSet`.
    pub kind: Cow<'static, str>,
    /// How URLs name it.
    pub resource: Resource,
    /// Their namespace; `None`: all.
    pub namespace: Option<String>,
    /// A selector of labels, such as `istio/multiCluster=true`; empty: all.
    pub labels: String,
    /// What of them is sent.
    pub form: Form,
}

impl Selection {
    /// All objects of a kind.
    pub fn of(kind: impl Into<Cow<'static, str>>, resource: Resource) -> Self {
        Self { kind: kind.into(), resource, namespace: None, labels: String::new(), form: Form::Whole }
    }

    /// Those of a namespace.
    #[must_use]
    pub fn in_namespace(self, namespace: impl Into<String>) -> Self {
        Self { namespace: Some(namespace.into()), ..self }
    }

    /// Those with these labels.
    #[must_use]
    pub fn with_labels(self, labels: impl Into<String>) -> Self {
        Self { labels: labels.into(), ..self }
    }

    /// Their metadata alone.
    #[must_use]
    pub fn metadata_only(self) -> Self {
        Self { form: Form::Metadata, ..self }
    }

    /// What is wrong with an answer that says to be a list of this kind and API version. Its kind is `KIND` and `List`, as every API server says
    /// unless a definition names another `listKind`.
    pub(crate) fn fault_of_list(&self, said: &Said<'_>) -> Option<String> {
        self.fault(said, "List")
    }

    /// What is wrong with an object that says to be of this kind and API version.
    pub(crate) fn fault_of_object(&self, said: &Said<'_>) -> Option<String> {
        self.fault(said, "")
    }

    fn fault(&self, said: &Said<'_>, suffix: &str) -> Option<String> {
        let is = |kind: &str, api_version: &str| {
            said.kind.strip_suffix(suffix) == Some(kind) && said.api_version == api_version
        };
        let api_version = self.resource.api_version();
        // A server that does not know the form sends all of the objects.
        let is_partial = self.form == Form::Metadata && is(PARTIAL, META);
        (!is_partial && !is(&self.kind, &api_version)).then(|| {
            let shown = |text: &str| if text.is_empty() { "nothing".to_owned() } else { foreign(text) };
            let (said_kind, said_version) = (shown(&said.kind), shown(&said.api_version));
            format!("kind {said_kind} of {said_version} instead of {}{suffix} of {api_version}", self.kind)
        })
    }

    /// Whether a list without objects may have `null` for them. API servers have it for built-in kinds, not for custom resources.
    pub(crate) fn may_be_null(&self) -> bool {
        !self.resource.is_custom()
    }

    /// Path and query, with more parameters.
    pub(crate) fn url(&self, parameters: &[(&str, &str)]) -> String {
        let labels = (!self.labels.is_empty()).then_some(("labelSelector", &*self.labels));
        let mut url = self.resource.path(self.namespace.as_deref());
        for (index, (name, value)) in labels.iter().chain(parameters).enumerate() {
            url.push(if index == 0 { '?' } else { '&' });
            url.push_str(name);
            url.push('=');
            url.push_str(&escaped(value));
        }
        url
    }
}

/// A text as a part of a URL.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    if text.bytes().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for byte in text.bytes() {
        match is_plain(byte) {
            true => out.push(char::from(byte)),
            false => out.push_str(&format!("%{byte:02X}")),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_those_of_the_api() {
        let pods = Selection::of("Pod", Resource::new("", "v1", "pods"));
        assert_eq!(pods.url(&[]), "/api/v1/pods");
        let sets = Resource::new("apps", "v1", "replicasets");
        let sets = Selection::of("ReplicaSet", sets).in_namespace("a/b");
        assert_eq!(sets.url(&[("limit", "500")]), "/apis/apps/v1/namespaces/a%2Fb/replicasets?limit=500");
        let labelled = pods.in_namespace("istio-system").with_labels("istio/multiCluster=true");
        let expected =
            "/api/v1/namespaces/istio-system/pods?labelSelector=istio%2FmultiCluster%3Dtrue&continue=x%20y";
        assert_eq!(labelled.url(&[("continue", "x y")]), expected);
        assert_eq!(Resource::new("apps", "v1", "replicasets").to_string(), "replicasets.apps");
    }
}
