//! Paths from the root of a resource to a value.

/// A segment of a [`FieldPath`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Segment {
    /// A field of a message, in either spelling.
    Field(String),
    /// A map key; may contain dots.
    Key(String),
    /// An item of a list, from 0.
    Index(usize),
}

/// The path from the root of a resource to a value, displayed as `spec.actions[0].handler`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct FieldPath {
    segments: Vec<Segment>,
}

impl FieldPath {
    /// The root.
    pub fn root() -> Self {
        Self::default()
    }

    /// Whether it is the root.
    pub fn is_root(&self) -> bool {
        self.segments.is_empty()
    }

    /// The segments.
    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Parses the displayed form; text in brackets that is not a number is a map key.
    pub fn parse(text: &str) -> Self {
        let mut path = Self::root();
        let mut rest = text;
        while !rest.is_empty() {
            if let Some(tail) = rest.strip_prefix('[') {
                let (inner, after) = tail.split_once(']').unwrap_or((tail, ""));
                path = match inner.parse() {
                    Ok(index) => path.index(index),
                    Err(_) => path.key(inner),
                };
                rest = after;
            } else {
                let rest_of = rest.strip_prefix('.').unwrap_or(rest);
                let end = rest_of.find(['.', '[']).unwrap_or(rest_of.len());
                let (name, after) = rest_of.split_at(end);
                if !name.is_empty() {
                    path = path.field(name);
                }
                rest = after;
            }
        }
        path
    }

    /// This path extended by a field.
    #[must_use]
    pub fn field(&self, name: &str) -> Self {
        self.with(Segment::Field(name.to_owned()))
    }

    /// This path extended by a map key.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        self.with(Segment::Key(key.to_owned()))
    }

    /// This path extended by a list index.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        self.with(Segment::Index(index))
    }

    fn with(&self, segment: Segment) -> Self {
        let mut segments = self.segments.clone();
        segments.push(segment);
        Self { segments }
    }

    /// This path followed by `tail`.
    #[must_use]
    pub fn join(&self, tail: &FieldPath) -> Self {
        let mut segments = self.segments.clone();
        segments.extend(tail.segments.iter().cloned());
        Self { segments }
    }
}

impl std::fmt::Display for FieldPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, segment) in self.segments.iter().enumerate() {
            match segment {
                Segment::Field(name) if i == 0 => f.write_str(name)?,
                Segment::Field(name) => write!(f, ".{name}")?,
                Segment::Key(key) => write!(f, "[{key}]")?,
                Segment::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}
