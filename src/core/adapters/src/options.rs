//! How the adapters of a server treat what Istio Mixer accepts.

/// Shared by the handlers of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AdapterOptions {
    /// As Istio Mixer. Lists: a provider without entries is an empty list for every handler, whatever its `allowEmptyList`; every answer
    /// of a URL is a list, also an HTML page or a JSON document; an IPv6 address without a prefix length is a network of 32 bits; and a
    /// handler begins without a list until it has fetched one. Quotas: overrides for dimensions that there are not never apply. Policies of
    /// opa: a handler without `failClose` allows what its policy does not decide, and one with it is built although its policy does not
    /// compile. redisquota: a handler is not built while Redis does not answer, so that everything is granted; otherwise its calls fail until
    /// Redis answers.
    pub as_istio_mixer: bool,
}

/// The address of the metrics endpoint of prometheus handlers, `HOST:PORT`; empty: the port of [`Env`](mixer_engine::adapter::Env) on all
/// interfaces. Shared by the handlers of a server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MetricsAddress(pub String);
