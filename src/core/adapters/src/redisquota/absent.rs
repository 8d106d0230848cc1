//! The adapter in a build without a client of Redis: its parameters are known, its handlers are not built.

use super::Params;
use mixer_engine::adapter::{BoundInstance, BuildError, Env, Handler};

/// What is missing.
const MISSING: &str = "adapter `redisquota` is not in this build (feature `adapter-redisquota`)";

pub(super) fn check(_: &Params) -> Result<(), String> {
    Err(MISSING.to_owned())
}

pub(super) async fn build(_: Params, _: &[BoundInstance], _: &Env) -> Result<Box<dyn Handler>, BuildError> {
    Err(BuildError::Refused(MISSING.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_env;

    #[tokio::test]
    async fn a_build_without_the_client_names_the_feature() {
        assert_eq!(check(&Params::default()), Err(MISSING.to_owned()));
        let refused = build(Params::default(), &[], &test_env("h.ns")).await.err().unwrap();
        assert_eq!(refused.to_string(), MISSING);
    }
}
