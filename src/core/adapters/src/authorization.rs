//! Instances of the template `authorization`: who does what to which service.

use mixer_attribute::Value;
use mixer_config::{Diagnostic, Diagnostics, FieldPath};
use mixer_engine::adapter::{BoundInstance, HandlerError, Instance};

/// The messages of the template, both of which a decision needs.
const MESSAGES: [&str; 2] = ["subject", "action"];

/// Where the parts of a bound instance are among its values.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layout {
    /// The message that the instance lacks: every check of it fails.
    missing: Option<&'static str>,
    pub(crate) user: Part,
    pub(crate) groups: Part,
    pub(crate) subject_properties: Properties,
    pub(crate) namespace: Part,
    pub(crate) service: Part,
    pub(crate) method: Part,
    pub(crate) path: Part,
    pub(crate) action_properties: Properties,
}

/// The position of a text; `None` if the instance does not configure it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Part(Option<usize>);

impl Part {
    /// Its value in an instance; empty without one.
    pub(crate) fn of<'a>(self, instance: &Instance<'a>) -> &'a [u8] {
        match self.0.and_then(|at| instance.value(at)) {
            Some(Value::String(text)) => text,
            _ => b"",
        }
    }
}

/// Keys and positions of a map, in byte order of the keys.
#[derive(Debug, Clone, Default)]
pub(crate) struct Properties(Vec<(Box<str>, usize)>);

impl Properties {
    /// Keys and values in an instance, in byte order of the keys.
    #[cfg_attr(not(feature = "adapter-opa"), expect(dead_code, reason = "only opa takes all properties"))]
    pub(crate) fn entries<'p, 'a: 'p>(
        &'p self,
        instance: &'p Instance<'a>,
    ) -> impl Iterator<Item = (&'p str, Value<'a>)> {
        self.0.iter().filter_map(|(key, at)| Some((&**key, instance.value(*at)?)))
    }

    /// The value under a key.
    pub(crate) fn value<'a>(&self, instance: &Instance<'a>, key: &str) -> Option<Value<'a>> {
        let found = self.0.binary_search_by(|(known, _)| (**known).cmp(key)).ok()?;
        instance.value(self.0.get(found)?.1)
    }

    /// The text under a key; `None` if there is none, or a value of another type.
    pub(crate) fn text<'a>(&self, instance: &Instance<'a>, key: &str) -> Option<&'a [u8]> {
        match self.value(instance, key)? {
            Value::String(text) => Some(text),
            _ => None,
        }
    }
}

impl Layout {
    /// The layouts of bound instances, by [`Instance::bound`].
    pub(crate) fn of_all(instances: &[BoundInstance]) -> Vec<Self> {
        instances.iter().map(Self::of).collect()
    }

    fn of(bound: &BoundInstance) -> Self {
        let part = |field: &str| Part(bound.position(field));
        let properties = |field: &'static str| {
            Properties(bound.entries(field).map(|(key, at)| (key.into(), at)).collect())
        };
        Self {
            missing: MESSAGES.into_iter().find(|message| !bound.has_message(message)),
            user: part("subject.user"),
            groups: part("subject.groups"),
            subject_properties: properties("subject.properties"),
            namespace: part("action.namespace"),
            service: part("action.service"),
            method: part("action.method"),
            path: part("action.path"),
            action_properties: properties("action.properties"),
        }
    }

    /// Bytes of all texts and addresses of an instance.
    #[cfg_attr(not(feature = "adapter-opa"), expect(dead_code, reason = "only opa bounds its input"))]
    pub(crate) fn bytes(&self, instance: &Instance<'_>) -> usize {
        let parts = [self.user, self.groups, self.namespace, self.service, self.method, self.path];
        let texts: usize = parts.iter().map(|part| part.of(instance).len()).sum();
        let properties = [&self.subject_properties, &self.action_properties].into_iter().flat_map(|p| &p.0);
        let values = properties.filter_map(|(_, at)| instance.value(*at));
        texts + values.map(bytes_of).sum::<usize>()
    }

    /// The layout of an instance among those of its handler. Errors: it lacks a message, or is not bound.
    pub(crate) fn find<'l>(layouts: &'l [Self], instance: &Instance<'_>) -> Result<&'l Self, HandlerError> {
        let refuse = |what: String| HandlerError::new(format!("instance `{}` {what}", instance.name));
        let layout = layouts.get(instance.bound);
        let layout = layout.ok_or_else(|| refuse("is not bound to this handler".to_owned()))?;
        match layout.missing {
            None => Ok(layout),
            Some(message) => Err(refuse(format!("has no `{message}`"))),
        }
    }
}

/// Bytes of the texts of a value.
fn bytes_of(value: Value<'_>) -> usize {
    match value {
        Value::String(bytes) | Value::Bytes(bytes) => bytes.len(),
        Value::StringMap(map) => map.entries.iter().map(|(key, value)| key.len() + value.len()).sum(),
        _ => 0,
    }
}

/// Warns about instances of which every check fails.
pub(crate) fn warn_incomplete(instances: &[BoundInstance], problems: &mut Diagnostics) {
    for instance in instances {
        let Some(missing) = Layout::of(instance).missing else { continue };
        let text = format!("every check of {} fails: it has no `{missing}`", instance.name);
        problems.push(
            Diagnostic::warning("authorization-incomplete", FieldPath::root(), text)
                .with_hint(format!("configure `{missing}` of the instance")),
        );
    }
}
