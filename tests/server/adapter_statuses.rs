//! What an adapter out of process says of a check, over the wire: every code but 0 refuses, every status but OK fails, and neither allows.

use crate::adapter_failures::{AMPLE, Adapter, Mode, check, common, handler, plain, said, start};

/// Status of the command for a check that is allowed, denied, or fails.
const ALLOWED: i32 = 0;
const DENIED: i32 = 1;
const FAILED: i32 = 4;

#[test]
fn every_code_of_a_result_but_ok_refuses() {
    let directory = tempfile::tempdir().unwrap();
    let adapter = Adapter::listening(Mode::Well);
    let mut text = common(false);
    for on_error in ["", "deny", "allow"] {
        text += &handler(&format!("gate{on_error}"), &plain(adapter.port, AMPLE), on_error);
    }
    let server = start(directory.path(), &text, &[]);
    for (code, expected) in [
        (0, "OK"),
        (3, "INVALID_ARGUMENT"),
        (7, "PERMISSION_DENIED"),
        (8, "RESOURCE_EXHAUSTED"),
        (14, "UNAVAILABLE"),
        (16, "UNAUTHENTICATED"),
        (17, "17"),
        (-1, "-1"),
        (i32::MAX, "2147483647"),
        (i32::MIN, "-2147483648"),
    ] {
        adapter.becomes(Mode::Says(code));
        for on_error in ["", "deny", "allow"] {
            let ran = check(&server, &format!("gate{on_error}"), &[]);
            let status = if code == 0 { ALLOWED } else { DENIED };
            assert_eq!(ran.status, status, "{code} {on_error}: {}", said(&ran));
            assert!(said(&ran).contains(expected), "{code} {on_error}: {}", said(&ran));
        }
    }
}

#[test]
fn every_status_of_a_call_but_ok_fails() {
    let directory = tempfile::tempdir().unwrap();
    let adapter = Adapter::listening(Mode::Well);
    let mut text = common(false);
    for on_error in ["", "deny", "allow", "lastKnown"] {
        text += &handler(&format!("gate{on_error}"), &plain(adapter.port, AMPLE), on_error);
    }
    let server = start(directory.path(), &text, &[]);
    for status in (1..=17).chain([99, -1]) {
        adapter.becomes(Mode::Ends(status));
        for (on_error, expected) in
            [("", FAILED), ("deny", DENIED), ("lastKnown", DENIED), ("allow", ALLOWED)]
        {
            let ran = check(&server, &format!("gate{on_error}"), &[]);
            assert_eq!(ran.status, expected, "{status} {on_error}: {}", said(&ran));
        }
    }
    adapter.becomes(Mode::Well);
    assert_eq!(check(&server, "gate", &[]).status, ALLOWED);
}
