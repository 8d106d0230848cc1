use super::*;

#[test]
fn statuses_mean_what_the_specification_says() {
    let of = |code, retry_after| {
        of_call(Err(GrpcFailure::Status { code, message: "x".to_owned(), retry_after, details: Vec::new() }))
    };
    let second = Some(Duration::from_secs(1));
    for (code, again) in [
        (GrpcCode::Cancelled, true),
        (GrpcCode::Unknown, false),
        (GrpcCode::InvalidArgument, false),
        (GrpcCode::DeadlineExceeded, true),
        (GrpcCode::NotFound, false),
        (GrpcCode::AlreadyExists, false),
        (GrpcCode::PermissionDenied, false),
        (GrpcCode::ResourceExhausted, false),
        (GrpcCode::FailedPrecondition, false),
        (GrpcCode::Aborted, true),
        (GrpcCode::OutOfRange, true),
        (GrpcCode::Unimplemented, false),
        (GrpcCode::Internal, false),
        (GrpcCode::Unavailable, true),
        (GrpcCode::DataLoss, true),
        (GrpcCode::Unauthenticated, false),
    ] {
        let why = format!("{}: x", code_name(code));
        let expected = match again {
            true => Outcome::Again { why, after: Duration::ZERO },
            false => Outcome::Refused { reason: code_name(code).to_owned(), why },
        };
        assert_eq!(of(code, None), expected);
    }
    let paused = Outcome::Again { why: "RESOURCE_EXHAUSTED: x".to_owned(), after: Duration::from_secs(1) };
    assert_eq!(of(GrpcCode::ResourceExhausted, second), paused);
    let gone = || Outcome::Again { why: "gone".to_owned(), after: Duration::ZERO };
    assert_eq!(of_call(Err(GrpcFailure::NoAnswer("gone".to_owned()))), gone());
    // What the HTTP client would try again, and OTLP would not.
    for (status, again) in
        [(429, true), (502, true), (503, true), (504, true), (408, false), (425, false), (500, false)]
    {
        let retry = Answer::Retry { why: "no".to_owned(), after: Duration::from_secs(2) };
        let expected = match again {
            true => Outcome::Again { why: "no".to_owned(), after: Duration::from_secs(2) },
            false => Outcome::Refused { reason: format!("HTTP {status}"), why: "no".to_owned() },
        };
        assert_eq!(of_reply(StatusCode::from_u16(status).ok(), retry, &Bytes::new()), expected, "{status}");
    }
    assert_eq!(of_reply(None, Answer::retry("gone"), &Bytes::new()), gone());
    let bad = of_reply(Some(StatusCode::BAD_REQUEST), Answer::Refused("no".to_owned()), &Bytes::new());
    assert_eq!(bad, Outcome::Refused { reason: "HTTP 400".to_owned(), why: "no".to_owned() });
}

#[test]
fn what_was_rejected_is_told_and_what_is_no_answer_of_a_collector_is_sent_again() {
    let partial = |rejected| {
        let partial_success = mixer_otlp::PartialSuccess { rejected, error_message: "a\nb".to_owned() };
        Bytes::from(ExportResponse { partial_success: Some(partial_success) }.encode_to_vec())
    };
    let taken = |rejected, why: &str| Outcome::Taken { rejected, why: why.to_owned() };
    let again = || Outcome::Again { why: NOT_OTLP.to_owned(), after: Duration::ZERO };
    for (body, expected) in [
        (Bytes::new(), taken(0, "")),
        (partial(3), taken(3, "a b")),
        (partial(-3), taken(0, "a b")),
        (Bytes::from_static(b"<html>hello</html>"), again()),
    ] {
        assert_eq!(of_call(Ok(body.clone())), expected);
        assert_eq!(of_reply(Some(StatusCode::OK), Answer::Delivered, &body), expected);
    }
    assert_eq!(
        of_call(Err(GrpcFailure::TooLong)),
        taken(0, "its answer is too long to be read"),
        "the collector has the batch"
    );
    for (json, expected) in [
        ("{}", taken(0, "")),
        (r#"{"partialSuccess":{}}"#, taken(0, "")),
        (r#"{"partialSuccess":{"rejectedLogRecords":"7","errorMessage":"no\nroom"}}"#, taken(7, "no room")),
        (r#"{"partialSuccess":{"rejectedSpans":2}}"#, taken(2, "")),
        (r#"{"partialSuccess":{"rejectedDataPoints":"1"}}"#, taken(1, "")),
        ("{ a page", again()),
    ] {
        let found = of_reply(Some(StatusCode::OK), Answer::Delivered, &Bytes::from_static(json.as_bytes()));
        assert_eq!(found, expected, "{json}");
    }
}
