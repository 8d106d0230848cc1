//! The codes of what checks find, each with the usual cure.

/// A kind of problem.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Code {
    /// Stable, for example `host-invalid`.
    pub(crate) name: &'static str,
    /// How to fix it.
    pub(crate) cure: &'static str,
}

macro_rules! codes {
    ($($(#[$meta:meta])* $constant:ident: $name:literal, $cure:literal;)*) => {
        $($(#[$meta])* pub(crate) const $constant: Code = Code { name: $name, cure: $cure };)*
    };
}

codes! {
    /// A resource or a reference with a name that it cannot have.
    NAME: "name-invalid", "letters, digits and `-`, at most 63, beginning and ending with a letter or digit";
    /// A host that is no DNS name.
    HOST: "host-invalid", "write a DNS name like `reviews.shop.svc.cluster.local`; where wildcards are allowed, `*` is its first label";
    /// An address that is none.
    ADDRESS: "address-invalid", "write an IPv4 address like `192.0.2.1`, or a network like `192.0.2.0/24` where networks are allowed";
    /// A port out of range, unnamed, or named where a number is expected.
    PORT: "port-invalid", "a port is a number from 1 to 65535, with a name and a protocol where it is declared";
    /// A protocol that proxies do not speak.
    PROTOCOL: "protocol-unsupported", "one of TCP, UDP, GRPC, GRPC-Web, HTTP, HTTP2, HTTPS, TLS, Mongo, Redis, MySQL";
    /// A duration below or finer than a millisecond.
    DURATION: "duration-invalid", "write whole milliseconds, for example `250ms` or `1.5s`";
    /// A share that is none.
    PERCENTAGE: "percentage-invalid", "a percentage is a number from 0 to 100";
    /// Labels that no workload can have.
    LABELS: "labels-invalid", "a key is a name with an optional DNS prefix, `example.com/tier`; keys and values begin and end with a letter or digit";
    /// Something that has to be there is not.
    MISSING: "field-missing", "add what the message names";
    /// Two things that exclude each other.
    CONFLICT: "field-conflict", "keep one of them";
    /// The same thing twice.
    DUPLICATE: "field-duplicate", "rename or remove one of them";
    /// A value that its field cannot have.
    VALUE: "value-invalid", "see the message for what is possible";
    /// A value that is understood, but not supported.
    UNSUPPORTED: "value-unsupported", "use a setting that is supported";
    /// Weights that do not add up.
    WEIGHT: "weight-total", "the weights of several destinations add up to 100";
    /// TLS settings that do not fit their mode or port.
    TLS: "tls-settings", "settings of TLS belong to HTTPS and TLS ports, with the files or the credential that their mode needs";
}
