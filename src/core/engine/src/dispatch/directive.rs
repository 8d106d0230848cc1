//! The route directive of an answer.

use crate::snapshot::HeaderOperationKind;

/// One change to headers, evaluated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderChange {
    /// Header name.
    pub name: String,
    /// Its value; empty for REMOVE.
    pub value: String,
    /// The operation.
    pub kind: HeaderOperationKind,
}

/// Header changes, or a direct response, that the proxy applies.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RouteDirective {
    /// Changes to the request, in order.
    pub request_headers: Vec<HeaderChange>,
    /// Request headers that a REPLACE was to set and whose value is absent or empty. The Mixer API ignores such an operation, like
    /// Istio Mixer, and the header of the caller stays; Envoy's services remove it.
    pub unset_request_headers: Vec<String>,
    /// Changes to the response, in order.
    pub response_headers: Vec<HeaderChange>,
    /// HTTP status of a direct response; 0 for none.
    pub direct_response_code: u32,
    /// Its body.
    pub direct_response_body: String,
}
