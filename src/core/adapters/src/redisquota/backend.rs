//! The client of Redis.

mod answers;
mod any_node;
mod exchanges;
mod handler;
mod keys;
mod lease;
mod leases;
mod link;
mod node;
mod repeated;
mod replies;
mod scripts;
mod seen;
mod silent;
mod status;
mod target;
mod without_redis;

use std::sync::Arc;

use super::{Params, limits};
use crate::AdapterOptions;
use answers::Redis;
use exchanges::Exchanges;
use handler::{Answers, Bound, RedisHandler, Shared};
use keys::KeyStyle;
use leases::Leases;
use link::Link;
use mixer_base::budget::{MemoryBudget, Purpose};
use mixer_base::metrics::Collect;
use mixer_base::task::Task;
use mixer_engine::adapter::{BoundInstance, BuildError, Env, Handler};
use repeated::Repeated;
use seen::SeenWindows;
use target::Target;
use without_redis::WithoutRedis;

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
    let limits = limits(&params);
    let options = env.commons.get::<AdapterOptions>();
    let style = KeyStyle::of(&params, options.as_istio_mixer);
    let bound = instances.iter().map(|instance| {
        let limit = limits.get(&*instance.name).copied();
        limit.map(|quota| Bound::new(quota, instance, style)).ok_or_else(|| {
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
    if let Err(why) = connected
        && options.as_istio_mixer
    {
        let text = format!("redisquota: could not create a connection to redis server: {why}");
        return Err(BuildError::Invalid(vec![text]));
    }
    let shared = shared(&params, &bound, link, env);
    let collected: Arc<dyn Collect> = Arc::clone(&shared) as _;
    env.metrics.collect_from(Arc::downgrade(&collected));
    if bound.iter().any(|bound| bound.lease() > 0) {
        let serving = Arc::clone(&shared);
        env.tasks.spawn(Task::restarted("redis leases").of(&*env.handler_name), move || {
            let shared = Arc::clone(&serving);
            async move { shared.exchanges.serve().await }
        });
    }
    Ok(Box::new(RedisHandler::new(shared, bound)))
}

fn shared(params: &Params, bound: &[Bound], link: Arc<Link>, env: &Env) -> Arc<Shared> {
    let (metrics, name) = (&env.metrics, &env.handler_name);
    let memory = env.commons.get::<MemoryBudget>();
    let account = |purpose| Arc::new(memory.share(purpose).open());
    let (of_cells, of_ids) = (account(Purpose::QuotaCells), account(Purpose::Deduplication));
    let redis = Arc::new(Redis::new(link, params.timeout.to_std_or_zero(), metrics, Arc::clone(name)));
    let leases = Arc::new(Leases::new(&of_cells, metrics, name));
    let exchanges = Exchanges::new(leases, Arc::clone(&redis), Arc::clone(&env.clock), metrics, name);
    let longest = bound.iter().map(Bound::length).max().unwrap_or(0).max(1).cast_unsigned();
    Arc::new(Shared {
        redis,
        repeated: Repeated::new(exchanges.now(), longest, &of_ids),
        exchanges,
        seen: SeenWindows::new(),
        without_redis: WithoutRedis::new(params, &of_cells, metrics, name),
        handler_name: Arc::clone(name),
        answers: Answers::new(metrics, name),
    })
}
