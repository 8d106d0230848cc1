//! Statuses of HTTP in configurations: `envoy.type.v3.HttpStatus`.

use super::reader::{Fields, Message};

static STATUS: Message = Message { name: "HttpStatus", unsupported: &[] };

/// The values of `envoy.type.v3.StatusCode` that end a request.
const CODES: &[(&str, u32)] = &[
    ("OK", 200),
    ("Created", 201),
    ("Accepted", 202),
    ("NonAuthoritativeInformation", 203),
    ("NoContent", 204),
    ("ResetContent", 205),
    ("PartialContent", 206),
    ("MultiStatus", 207),
    ("AlreadyReported", 208),
    ("IMUsed", 226),
    ("MultipleChoices", 300),
    ("MovedPermanently", 301),
    ("Found", 302),
    ("SeeOther", 303),
    ("NotModified", 304),
    ("UseProxy", 305),
    ("TemporaryRedirect", 307),
    ("PermanentRedirect", 308),
    ("BadRequest", 400),
    ("Unauthorized", 401),
    ("PaymentRequired", 402),
    ("Forbidden", 403),
    ("NotFound", 404),
    ("MethodNotAllowed", 405),
    ("NotAcceptable", 406),
    ("ProxyAuthenticationRequired", 407),
    ("RequestTimeout", 408),
    ("Conflict", 409),
    ("Gone", 410),
    ("LengthRequired", 411),
    ("PreconditionFailed", 412),
    ("PayloadTooLarge", 413),
    ("URITooLong", 414),
    ("UnsupportedMediaType", 415),
    ("RangeNotSatisfiable", 416),
    ("ExpectationFailed", 417),
    ("MisdirectedRequest", 421),
    ("UnprocessableEntity", 422),
    ("Locked", 423),
    ("FailedDependency", 424),
    ("UpgradeRequired", 426),
    ("PreconditionRequired", 428),
    ("TooManyRequests", 429),
    ("RequestHeaderFieldsTooLarge", 431),
    ("InternalServerError", 500),
    ("NotImplemented", 501),
    ("BadGateway", 502),
    ("ServiceUnavailable", 503),
    ("GatewayTimeout", 504),
    ("HTTPVersionNotSupported", 505),
    ("VariantAlsoNegotiates", 506),
    ("InsufficientStorage", 507),
    ("LoopDetected", 508),
    ("NotExtended", 510),
    ("NetworkAuthenticationRequired", 511),
];

/// Reads a field that is a status; `None` if it is absent.
pub(super) fn read(holder: &Fields<'_>, name: &str) -> Option<u16> {
    let status = holder.message(name, &STATUS)?;
    let code = match status.get("code") {
        Some(code) => code.choice(CODES).and_then(|code| u16::try_from(code).ok()),
        None => {
            status.required("HttpStatusValidationError.Code: value must not be in list [Empty]");
            None
        }
    };
    status.finish();
    code
}
