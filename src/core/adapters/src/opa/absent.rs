//! The adapter in a build without the engine: its parameters are known, its handlers are not built.

use super::{Checked, Params, Problem, Subject};
use mixer_engine::adapter::{BoundInstance, BuildError, Env, Handler};

/// What is missing.
const MISSING: &str = "adapter `opa` is not in this build (feature `adapter-opa`)";

pub(super) fn check(_: &Params, _: &[BoundInstance]) -> Result<Checked, Vec<Problem>> {
    Err(vec![Problem::new(Subject::Policy, MISSING)])
}

pub(super) fn wrong_calls(_: &Params) -> Vec<Problem> {
    Vec::new()
}

pub(super) async fn build(_: Params, _: &[BoundInstance], _: &Env) -> Result<Box<dyn Handler>, BuildError> {
    Err(BuildError::Refused(MISSING.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_env;
    use mixer_config::message::decode_over;
    use mixer_config::{FieldPath, yaml};

    #[tokio::test]
    async fn a_build_without_the_engine_knows_the_parameters_and_names_the_feature() {
        let text = "policy: [package a]\ncheckMethod: data.a.b\nfailClose: true\nfailClosed: true\n";
        let mut params = Params::default();
        let errors = decode_over(&mut params, &yaml::parse(text).unwrap().root, FieldPath::root());
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert_eq!(errors[0].hint.as_deref(), Some("did you mean `failClose`?"));
        let found: Vec<String> = check(&params, &[]).unwrap_err().iter().map(Problem::message).collect();
        assert_eq!(found, [format!("Policy: {MISSING}")]);
        assert!(wrong_calls(&params).is_empty());
        let refused = build(params, &[], &test_env("h.ns")).await.err().unwrap();
        assert_eq!(refused.to_string(), MISSING);
    }
}
