//! The client of Redis.

mod handler;
mod keys;
mod link;
mod scripts;
mod target;

use std::sync::Arc;

use super::{Params, limit_of};
use crate::AdapterOptions;
use handler::{Bound, RedisHandler, Shared};
use link::Link;
use mixer_base::task::Task;
use mixer_engine::adapter::{BoundInstance, BuildError, Env, Handler};
use target::Target;

/// Checks the addresses. Errors: one line, without secrets.
pub(super) fn check(params: &Params) -> Result<(), String> {
    Target::new(params).map(drop)
}

/// Builds a handler. It waits for the first attempt to connect.
pub(super) async fn build(
    params: Params,
    instances: &[BoundInstance],
    env: &Env,
) -> Result<Box<dyn Handler>, BuildError> {
    let bound = instances.iter().map(|instance| {
        let limit = limit_of(&params, &instance.name);
        limit.map(|quota| Bound::new(quota, instance, &params)).ok_or_else(|| {
            BuildError::Refused(format!("did not find limit defined for quota {}", instance.name))
        })
    });
    let bound: Vec<Bound> = bound.collect::<Result<_, _>>()?;
    let target = Target::new(&params).map_err(|text| BuildError::Invalid(vec![text]))?;
    let link = Arc::new(Link::new(target, Arc::clone(&env.handler_name)));
    let followed = Arc::clone(&link);
    env.tasks.spawn(Task::restarted("redis connection").of(&*env.handler_name), move || {
        let link = Arc::clone(&followed);
        async move { link.keep().await }
    });
    let connected = link.first().await;
    let options = env.commons.get::<AdapterOptions>();
    if let Err(why) = connected
        && options.as_istio_mixer
    {
        let text = format!("redisquota: could not create a connection to redis server: {why}");
        return Err(BuildError::Invalid(vec![text]));
    }
    let timeout = params.timeout.to_std_or_zero();
    let shared = Shared::new(link, timeout, &env.metrics, Arc::clone(&env.handler_name));
    Ok(Box::new(RedisHandler::new(Arc::new(shared), bound)))
}
