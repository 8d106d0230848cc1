use super::*;

fn result(code: i32, message: &str, seconds: i64, uses: i32) -> CheckResult {
    CheckResult {
        status: Status { code, message: message.to_owned(), details: Vec::new() },
        valid_duration: SignedDuration::from_secs(seconds),
        valid_use_count: uses,
        output: Vec::new(),
    }
}

fn combined(results: &[CheckResult]) -> CheckOutcome {
    let mut combiner = Combiner::default();
    for (index, result) in results.iter().enumerate() {
        combiner.add(&format!("h{index}"), result);
    }
    combiner.finish(false)
}

#[test]
fn an_approval_keeps_the_message_of_the_first_that_says_anything() {
    let rows = [
        (vec![result(0, "fine", 5, 9)], "fine"),
        (vec![result(0, "first", 5, 9), result(0, "second", 5, 9)], "first"),
        (vec![result(0, "", 5, 9), result(0, "second", 5, 9)], ""),
        (vec![result(0, "empty", 0, 0), result(0, "second", 5, 9)], "second"),
        (vec![result(0, "empty", 0, 0)], "empty"),
        (vec![result(0, "fine", 5, 9), result(7, "no", 5, 9)], "h1:no"),
        (vec![result(7, "no", 5, 9), result(0, "fine", 5, 9), result(5, "nor", 5, 9)], "h0:no, h2:nor"),
        (vec![], ""),
    ];
    for (results, wanted) in rows {
        assert_eq!(combined(&results).status.message, wanted, "{results:?}");
    }
}

#[test]
fn a_direct_response_takes_its_code_from_the_refusal_only_when_it_is_zero() {
    for (code, wanted) in [(0_i32, 403_u32), (418, 418), (-1, u32::MAX)] {
        let response = DirectHttpResponse { code, ..DirectHttpResponse::default() };
        let mut refusal = result(7, "no", 5, 9);
        refusal.status.details.push(StatusDetail {
            type_url: "type.googleapis.com/istio.policy.v1beta1.DirectHttpResponse".to_owned(),
            value: response.encode_to_vec(),
        });
        let directive = combined(&[refusal]).directive.expect("a directive");
        assert_eq!(directive.direct_response_code, wanted);
    }
}

#[test]
fn clients_are_not_told_why_a_failure_refuses() {
    let failure = result(7, "handler `list.istio-system` failed: dial tcp 10.0.0.7:6379", 0, 0);
    let mut combiner = Combiner::default();
    combiner.add_failure("list", &failure);
    combiner.add_failure("mixer", &result(7, "condition of rule `r` failed", 0, 0));
    combiner.add("h", &result(7, "no", 5, 9));
    let outcome = combiner.finish(false);
    assert_eq!(outcome.public_message, "the request cannot be evaluated, no");
    assert!(outcome.status.message.contains("10.0.0.7:6379, mixer:condition of rule `r` failed, h:no"));
    let mut outcome = combined(&[]);
    outcome.refuse(&["condition of rule `r` failed".to_owned()]);
    assert_eq!(outcome.public_message, UNEVALUATED);
}

/// Handlers repeat what callers sent, each of them.
#[test]
fn messages_of_many_refusals_are_bounded() {
    let refusals: Vec<CheckResult> = (0..100).map(|_| result(7, &"ä".repeat(500), 5, 9)).collect();
    let outcome = combined(&refusals);
    for (message, start) in [(&outcome.status.message, "h0:ää"), (&outcome.public_message, "ää")] {
        assert!(message.starts_with(start) && message.ends_with('…'), "{message}");
        assert_eq!(message.matches('…').count(), 1, "{message}");
        assert!(message.len() <= MAX_MESSAGE + "…".len(), "{}", message.len());
        assert!(message.len() >= MAX_MESSAGE - 1100, "{}", message.len());
    }
    // Texts are whole, or left out.
    let parts: Vec<&str> = outcome.public_message.split(", ").collect();
    let (last, whole) = parts.split_last().unwrap();
    assert!(whole.iter().all(|part| part.len() == 1000) && last.len() < 1010, "{last}");
    let outcome = combined(&[result(7, &"x".repeat(2 * MAX_MESSAGE), 5, 9), result(7, "no", 5, 9)]);
    assert_eq!((&*outcome.status.message, &*outcome.public_message), ("h0:…", "…"));
    let whole = combined(&refusals[..10]);
    assert!(!whole.status.message.contains('…') && !whole.public_message.contains('…'));
}
