//! The example of examples/galley.

use std::path::Path;

use crate::support::{DEADLINE, free_port, run};

#[test]
fn the_example_runs_with_one_command() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/galley/run.sh");
    let mut environment = vec![("MIXER".to_owned(), env!("CARGO_BIN_EXE_mixer").to_owned())];
    for name in [
        "SINK_PORT",
        "CTRLZ_PORT",
        "WEBHOOK_PORT",
        "GALLEY_MONITORING_PORT",
        "MIXER_PORT",
        "MONITORING_PORT",
        "METRICS_PORT",
    ] {
        environment.push((name.to_owned(), free_port().to_string()));
    }
    let finished = run(&script, &[], &environment, None, None, DEADLINE).expect("it ends");
    let printed = &finished.stdout;
    assert_eq!(finished.status, 0, "{printed}{}", finished.stderr);
    // In this order.
    let mut rest = printed.as_str();
    for part in [
        "wait rule/istio-system/deny\n  acknowledged by 1 sink\n",
        "mallory: PERMISSION_DENIED (turn-away.istio-system:not welcome)\n  eve: OK\n",
        "a change takes effect",
        "acknowledged by 1 sink\n  eve: PERMISSION_DENIED (turn-away.istio-system:not welcome)\n",
        "refused by the webhook",
        "allowed: False\n  error[attribute-unknown]: spec.match: unknown attribute source.usr (did you mean `source.user`?)\n",
        "refused by the server (NACK)",
        "refused by default (127.0.0.1:",
        "istio/policy/v1beta1/handlers",
        "istio-system/nested: no message of type `istio.policy.v1beta1.Handler`: failed to decode Protobuf message: recursion limit reached\n",
        "mixer galley sinks\n",
        "default  refuses  35            0            1\n  sink 1 refused istio/policy/v1beta1/handlers",
        "  eve: PERMISSION_DENIED",
        "taken back",
        "acknowledged by 1 sink\n",
        "default  in sync  36            0            0\n",
        "galley and the server have stopped\n",
    ] {
        let at = rest.find(part).unwrap_or_else(|| panic!("{part} is missing or out of order:\n{printed}"));
        rest = &rest[at + part.len()..];
    }
}
