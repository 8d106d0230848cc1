//! Static types and their unification.

use std::rc::Rc;

use mixer_attribute::ValueType;

/// A type. `Var` is a type variable.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Type {
    Dyn,
    Error,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Timestamp,
    Duration,
    List(Rc<Type>),
    Map(Rc<(Type, Type)>),
    /// An object of attributes, by path (`.request`), or an opaque type.
    Object(Rc<str>),
    /// The type of a type.
    Meta(Option<Rc<Type>>),
    Var(u32),
}

pub(super) const IP_ADDRESS: &str = "istio.policy.v1beta1.IPAddress";
pub(super) const EMAIL_ADDRESS: &str = "istio.policy.v1beta1.EmailAddress";
pub(super) const URI: &str = "istio.policy.v1beta1.Uri";
pub(super) const DNS_NAME: &str = "istio.policy.v1beta1.DNSName";

/// Maximum size of a type, to bound the cost of checking.
const MAX_TYPE_SIZE: usize = 200;

/// Maximum depth of substitution; beyond it, a type contains itself.
const MAX_SUBSTITUTIONS: usize = 64;

impl Type {
    pub(super) fn list(item: Type) -> Type {
        Type::List(Rc::new(item))
    }

    pub(super) fn map(key: Type, value: Type) -> Type {
        Type::Map(Rc::new((key, value)))
    }

    pub(super) fn object(name: &str) -> Type {
        Type::Object(name.into())
    }

    /// The type of an attribute.
    pub(super) fn of_attribute(value_type: ValueType) -> Type {
        match value_type {
            ValueType::Unspecified => Type::Dyn,
            ValueType::String => Type::String,
            ValueType::Int64 => Type::Int,
            ValueType::Double => Type::Double,
            ValueType::Bool => Type::Bool,
            ValueType::Timestamp => Type::Timestamp,
            ValueType::Duration => Type::Duration,
            ValueType::StringMap => Type::map(Type::String, Type::String),
            ValueType::IpAddress => Type::object(IP_ADDRESS),
            ValueType::EmailAddress => Type::object(EMAIL_ADDRESS),
            ValueType::Uri => Type::object(URI),
            ValueType::DnsName => Type::object(DNS_NAME),
        }
    }

    /// The attribute type of a result.
    pub(super) fn to_value_type(&self) -> ValueType {
        match self {
            Type::String => ValueType::String,
            Type::Int => ValueType::Int64,
            Type::Double => ValueType::Double,
            Type::Bool => ValueType::Bool,
            Type::Timestamp => ValueType::Timestamp,
            Type::Duration => ValueType::Duration,
            Type::Map(entry) if **entry == (Type::String, Type::String) => ValueType::StringMap,
            Type::Object(name) => match &**name {
                IP_ADDRESS => ValueType::IpAddress,
                EMAIL_ADDRESS => ValueType::EmailAddress,
                URI => ValueType::Uri,
                DNS_NAME => ValueType::DnsName,
                _ => ValueType::Unspecified,
            },
            _ => ValueType::Unspecified,
        }
    }

    /// Whether the type exceeds the maximum size.
    pub(super) fn is_too_large(&self) -> bool {
        fn count(of: &Type, left: &mut usize) {
            if *left == 0 {
                return;
            }
            *left -= 1;
            match of {
                Type::List(item) | Type::Meta(Some(item)) => count(item, left),
                Type::Map(entry) => {
                    count(&entry.0, left);
                    count(&entry.1, left);
                }
                _ => {}
            }
        }
        let mut left = MAX_TYPE_SIZE;
        count(self, &mut left);
        left == 0
    }

    /// Whether a type variable numbered `first` or later occurs.
    pub(super) fn has_var_from(&self, first: u32) -> bool {
        match self {
            Type::Var(var) => *var >= first,
            Type::List(item) | Type::Meta(Some(item)) => item.has_var_from(first),
            Type::Map(entry) => entry.0.has_var_from(first) || entry.1.has_var_from(first),
            _ => false,
        }
    }

    fn contains(&self, var: u32) -> bool {
        match self {
            Type::Var(other) => *other == var,
            Type::List(item) => item.contains(var),
            Type::Map(entry) => entry.0.contains(var) || entry.1.contains(var),
            _ => false,
        }
    }

    fn is_open(&self) -> bool {
        matches!(self, Type::Dyn | Type::Error)
    }
}

impl std::fmt::Display for Type {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Type::Dyn => f.write_str("dyn"),
            Type::Error => f.write_str("!error!"),
            Type::Null => f.write_str("null"),
            Type::Bool => f.write_str("bool"),
            Type::Int => f.write_str("int"),
            Type::Uint => f.write_str("uint"),
            Type::Double => f.write_str("double"),
            Type::String => f.write_str("string"),
            Type::Bytes => f.write_str("bytes"),
            Type::Timestamp => f.write_str("timestamp"),
            Type::Duration => f.write_str("duration"),
            Type::List(item) => write!(f, "list({item})"),
            Type::Map(entry) => write!(f, "map({}, {})", entry.0, entry.1),
            Type::Object(name) => f.write_str(name),
            Type::Meta(None) => f.write_str("type"),
            Type::Meta(Some(of)) => write!(f, "type({of})"),
            Type::Var(var) => write!(f, "type_param:\"_var{var}\" "),
        }
    }
}

/// The bindings of type variables, with a trail for undo.
///
/// Types may share parts, so that traversing a type can take exponentially longer than building it; steps are bounded.
#[derive(Debug)]
pub(super) struct Bindings {
    bound: Vec<Option<Type>>,
    trail: Vec<(u32, Option<Type>)>,
    steps_left: std::cell::Cell<usize>,
}

impl Bindings {
    /// No bindings. After `steps` steps every assignment fails.
    pub(super) fn new(steps: usize) -> Bindings {
        Bindings { bound: Vec::new(), trail: Vec::new(), steps_left: std::cell::Cell::new(steps) }
    }

    /// Whether the step limit was reached, so that results are invalid.
    pub(super) fn is_exhausted(&self) -> bool {
        self.steps_left.get() == 0
    }

    fn step(&self) -> bool {
        let left = self.steps_left.get().saturating_sub(1);
        self.steps_left.set(left);
        left > 0
    }

    /// A new type variable.
    pub(super) fn fresh(&mut self) -> Type {
        self.bound.push(None);
        Type::Var(self.next_var() - 1)
    }

    /// The number of the next variable.
    pub(super) fn next_var(&self) -> u32 {
        u32::try_from(self.bound.len()).unwrap_or(u32::MAX)
    }

    fn find(&self, var: u32) -> Option<Type> {
        self.bound.get(var as usize).cloned().flatten()
    }

    fn bind(&mut self, var: u32, to: Type) {
        if let Some(place) = self.bound.get_mut(var as usize) {
            self.trail.push((var, place.replace(to)));
        }
    }

    /// Whether the types of `from` are assignable to those of `to`, pairwise. Bindings are undone if not.
    pub(super) fn assign_all(&mut self, from: &[Type], to: &[Type]) -> bool {
        self.trail.clear();
        let assignable =
            from.len() == to.len() && from.iter().zip(to).all(|(from, to)| self.assigns(from, to, 0));
        if !assignable {
            while let Some((var, old)) = self.trail.pop() {
                if let Some(place) = self.bound.get_mut(var as usize) {
                    *place = old;
                }
            }
        }
        assignable
    }

    /// [`assign_all`](Self::assign_all) for one type.
    pub(super) fn assign(&mut self, from: &Type, to: &Type) -> bool {
        self.assign_all(std::slice::from_ref(from), std::slice::from_ref(to))
    }

    fn assigns(&mut self, from: &Type, to: &Type, depth: usize) -> bool {
        if depth > MAX_TYPE_SIZE || !self.step() {
            return false;
        }
        if let Type::Var(var) = to {
            if let Some(known) = self.find(*var) {
                // Widen the binding, for example from int to dyn.
                if is_wider(from, &known) && !from.contains(*var) {
                    self.bind(*var, from.clone());
                    return true;
                }
                return self.assigns(from, &known, depth + 1);
            }
            if !from.contains(*var) {
                self.bind(*var, from.clone());
                return true;
            }
        }
        if let Type::Var(var) = from {
            if let Some(known) = self.find(*var) {
                return self.assigns(&known, to, depth + 1);
            }
            if !to.contains(*var) {
                self.bind(*var, to.clone());
                return true;
            }
        }
        match (from, to) {
            _ if from.is_open() || to.is_open() => true,
            (Type::Null, to) => matches!(to, Type::Object(_) | Type::Timestamp | Type::Duration),
            (Type::List(from), Type::List(to)) => self.assigns(from, to, depth + 1),
            (Type::Map(from), Type::Map(to)) => {
                self.assigns(&from.0, &to.0, depth + 1) && self.assigns(&from.1, &to.1, depth + 1)
            }
            (Type::Meta(_), Type::Meta(_)) => true,
            (Type::Var(_), _) | (_, Type::Var(_)) => false,
            (from, to) => from == to,
        }
    }

    /// The type with all bound variables substituted.
    pub(super) fn resolve(&self, of: &Type) -> Type {
        self.resolved(of, 0)
    }

    fn resolved(&self, of: &Type, depth: usize) -> Type {
        if depth > MAX_SUBSTITUTIONS || !self.step() {
            return Type::Dyn;
        }
        match of {
            Type::Var(var) => match self.find(*var) {
                Some(known) => self.resolved(&known, depth + 1),
                None => of.clone(),
            },
            Type::List(item) => Type::list(self.resolved(item, depth + 1)),
            Type::Map(entry) => {
                Type::map(self.resolved(&entry.0, depth + 1), self.resolved(&entry.1, depth + 1))
            }
            Type::Meta(Some(of)) => Type::Meta(Some(Rc::new(self.resolved(of, depth + 1)))),
            _ => of.clone(),
        }
    }
}

/// Whether `a` covers `b`: equal, or less specific.
pub(super) fn is_wider(a: &Type, b: &Type) -> bool {
    match (a, b) {
        (Type::Dyn | Type::Var(_), _) => true,
        (_, Type::Dyn | Type::Var(_)) => false,
        (Type::List(a), Type::List(b)) => is_wider(a, b),
        // compat(1.3): only the keys of maps are compared.
        (Type::Map(a), Type::Map(b)) => is_wider(&a.0, &b.0),
        (Type::Meta(_), Type::Meta(_)) => true,
        (a, b) => a == b,
    }
}
