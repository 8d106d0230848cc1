//! The engine of the adapter.

mod analysis;
mod bounded;
mod compile;
mod data;
mod dialect;
mod document;
mod evaluate;
mod handler;
mod input;
mod kinds;
mod lanes;
mod literals;
mod names;
mod plan;
mod prints;
mod reads;
mod text;

use std::sync::Arc;

use super::{Checked, Params, Problem, Weight};
use crate::AdapterOptions;
use crate::authorization::Layout;
use compile::Policy;
use data::DataFiles;
use evaluate::Prepared;
use handler::{OpaHandler, Settings, Shared, Undecided, Unusable};
pub(super) use lanes::SlowThreads;
pub(super) use literals::wrong_calls;
use mixer_base::budget::{MemoryBudget, Purpose};
use mixer_base::task::Task;
use mixer_engine::adapter::{BoundInstance, BuildError, Env, Handler};
use mixer_engine::check_cache::AnswerEpoch;

/// What a policy is good for with these instances. Errors: every problem of the policy.
pub(super) fn check(params: &Params, instances: &[BoundInstance]) -> Result<Checked, Vec<Problem>> {
    let policy = Policy::compile(params)?;
    let mut names = policy.name_problems(instances);
    names.extend(policy.package_problem(params.check_method.trim()));
    Ok(Checked { decides: policy.has_default(), names })
}

/// Builds a handler.
pub(super) async fn build(
    params: Params,
    instances: &[BoundInstance],
    env: &Env,
) -> Result<Box<dyn Handler>, BuildError> {
    let layouts = Layout::of_all(instances);
    let options = env.commons.get::<AdapterOptions>();
    let mut failing = if options.as_istio_mixer { Vec::new() } else { wrong_calls(&params) };
    failing.retain(|problem| problem.weight == Weight::Error);
    if !failing.is_empty() {
        return Err(BuildError::Invalid(failing.iter().map(Problem::message).collect()));
    }
    let compiled = {
        let params = params.clone();
        // A large policy takes a while.
        let compile = tokio::task::spawn_blocking(move || Policy::compile(&params));
        compile.await.map_err(|error| BuildError::Refused(error.to_string()))?
    };
    let policy = match compiled {
        Ok(policy) => Arc::new(policy),
        Err(problems) => return unusable(&params, &problems, layouts, *options, env),
    };
    if !options.as_istio_mixer {
        let mut undefined = policy.name_problems(instances);
        undefined.retain(|problem| problem.weight == Weight::AcceptedByIstio);
        if !undefined.is_empty() {
            return Err(BuildError::Invalid(undefined.iter().map(Problem::message).collect()));
        }
    }
    let needs_all = !options.as_istio_mixer && !params.allow_missing_data;
    let mut files = (!params.data_files.is_empty())
        .then(|| DataFiles::new(&params.data_files, policy.clone(), needs_all));
    let prepared = match &mut files {
        Some(files) => {
            files.load().await.map_err(|text| BuildError::Invalid(vec![format!("dataFiles: {text}")]))?
        }
        None => {
            let engine = policy.with_data(&[]).map_err(|p| BuildError::Invalid(vec![p.message()]))?;
            Prepared::new(engine, policy.entry.clone(), 0)
        }
    };
    let undecided = match (params.fail_close, options.as_istio_mixer) {
        (true, _) => Undecided::Denied,
        (false, true) => Undecided::Allowed,
        (false, false) => Undecided::Error,
    };
    let settings = Settings {
        query: params.check_method.trim().to_owned(),
        undecided,
        timeout: params.evaluation_timeout.to_std_or_zero(),
        max_input: match options.as_istio_mixer {
            true => usize::MAX,
            false => usize::try_from(params.max_input_kilobytes).unwrap_or_default() << 10,
        },
        max_evaluation: usize::try_from(params.max_evaluation_kilobytes).unwrap_or_default() << 10,
    };
    let threads = env.commons.get::<SlowThreads>();
    let name = Arc::clone(&env.handler_name);
    let answers = env.commons.get::<AnswerEpoch>();
    let memory = Arc::clone(env.commons.get::<MemoryBudget>().share(Purpose::WaitingCalls));
    let shared = Shared::new(settings, policy.plan.clone(), prepared, threads, memory, &env.metrics, name)
        .ending(answers);
    let shared = Arc::new(shared);
    if let Some(files) = files {
        let files = Arc::new(tokio::sync::Mutex::new(files));
        let followed = Arc::clone(&shared);
        env.tasks.spawn(Task::restarted("opa data").of(&*env.handler_name), move || {
            let (files, shared) = (Arc::clone(&files), Arc::clone(&followed));
            async move { files.lock().await.follow(&shared).await }
        });
    }
    Ok(Box::new(OpaHandler { shared, layouts }))
}

/// What becomes of a policy that does not compile.
fn unusable(
    params: &Params,
    problems: &[Problem],
    layouts: Vec<Layout>,
    options: AdapterOptions,
    env: &Env,
) -> Result<Box<dyn Handler>, BuildError> {
    let texts: Vec<String> = problems.iter().map(Problem::message).collect();
    if !options.as_istio_mixer || !problems.iter().all(|problem| problem.is_lenient(params)) {
        return Err(BuildError::Invalid(texts));
    }
    for text in &texts {
        tracing::error!(target: "adapters", adapter = &*env.handler_name, "{text}");
    }
    Ok(Box::new(Unusable { layouts, denies: params.fail_close, trouble: texts.join("; ") }))
}
