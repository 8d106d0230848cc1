//! The checks of the configuration: what a server would serve that starts now, from its store and from its cache.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::{deliveries, enforcement, fail, handlers, ok, warn};
use crate::cmd::doctor::finding::Finding;
use crate::cmd::flags::validate_command;
use crate::cmd::output::counted;
use crate::cmd::server::store_hint;
use mixer_attribute::Timestamp;
use mixer_base::output_file::create_in;
use mixer_base::rotate::os_text;
use mixer_config::Severity;
use mixer_config::store::StoreContents;
use mixer_engine::decision::undeclared_masks;
use mixer_engine::runtime::{
    CacheDirectory, CacheError, CacheIdentity, CacheMedium, CacheOfUser, CachedConfiguration, OnConfigError,
    ProcessUser, forecast, read_cache,
};
use mixer_engine::snapshot::{Snapshot, SnapshotBuilder, check_params, pitfalls};
use mixer_server::ServerOptions;

const CACHE: &str = "config cache";
/// The name by which a source of configuration knows this command.
const READER: &str = "mixer doctor";
/// How long it is waited for a server that has the configuration.
const READ_LIMIT: Duration = Duration::from_secs(10);

/// The store and its content, and the cache if there is one.
///
/// `user`: that of the running server, if it is another one than that of this process.
pub(super) async fn examine(
    options: &ServerOptions,
    is_running: bool,
    user: Option<ProcessUser>,
) -> Vec<Finding> {
    let url = options.config_store_url.as_str();
    let uses_cache =
        !options.config_cache.as_os_str().is_empty() && options.config_on_error != OnConfigError::ServeValid;
    let (cached, cache) = match uses_cache {
        true => {
            let identity = CacheIdentity::new(url, &options.snapshot_options());
            let (cached, finding) = examine_cache(options, &identity, user);
            (cached, Some(finding))
        }
        false => (None, None),
    };
    let expected = cached.as_ref().map(CachedConfiguration::files).unwrap_or_default();
    let contents = match mixer_server::read_store(options, READER, &expected, READ_LIMIT).await {
        Ok(contents) => contents,
        Err(error) => return vec![fail("configuration", error.plain(), &store_hint(url))],
    };
    let mut masks = Vec::new();
    let (served, snapshot) = served(options, &contents, (cached, is_running), &mut masks);
    let enforcement = enforcement::of(&snapshot);
    let handlers = handlers::probe_backends(options, &snapshot, is_running).await;
    // A server that runs tells it by itself.
    let left = if is_running { Vec::new() } else { deliveries::left(options, &snapshot).await };
    std::iter::once(served).chain(cache).chain(masks).chain(enforcement).chain(handlers).chain(left).collect()
}

/// What would serve, and the snapshot of the store, beside a running server or not. `masks` gets what is wrong with the masks of the decision log.
fn served(
    options: &ServerOptions,
    contents: &Arc<StoreContents>,
    (cached, is_running): (Option<CachedConfiguration>, bool),
    masks: &mut Vec<Finding>,
) -> (Finding, Arc<Snapshot>) {
    const CHECK: &str = "configuration";
    let url = options.config_store_url.as_str();
    let builder = || SnapshotBuilder::new(options.snapshot_options());
    let snapshot = builder().build(contents);
    if options.decisions.is_enabled() {
        let problems = undeclared_masks(&options.decisions.masks, &snapshot.vocabulary);
        masks.extend(problems.into_iter().map(|problem| warn("decision mask", problem, "it masks nothing")));
    }
    let (parameters, pitfalls) = (check_params(&snapshot), pitfalls(&snapshot));
    let all = || snapshot.diagnostics.iter().chain(&parameters).chain(&pitfalls);
    let count = |severity| {
        let of_severity = all().filter(|problem| problem.severity == severity);
        of_severity.map(|problem| problem.count()).sum::<usize>()
    };
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    let forecast =
        forecast(contents, &mut builder(), options.config_on_error, options.allow_empty_config, cached);
    let rules = counted(snapshot.rules.len(), "rule");
    let problems = format!("{}, {}", counted(errors, "error"), counted(warnings, "warning"));
    let found = format!("{url}: {rules}, {problems}");
    let validate = format!("`{}` lists them", validate_command(url, &options.config_default_namespace));
    let is_kept = !forecast.kept.is_empty();
    let kept = match is_kept {
        false => String::new(),
        true => {
            format!("; {} would serve in the version of the cache", counted(forecast.kept.len(), "resource"))
        }
    };
    let finding = match (&contents.unavailable, forecast.withheld) {
        (Some(why), _) => {
            let hint = match is_kept {
                false => "the server would start, but not become ready",
                true => "the server would be ready with the configuration in --config-cache, degraded",
            };
            fail(CHECK, format!("{url}: {why}{kept}"), hint)
        }
        (None, Some(problem)) => {
            let hint = if errors > 0 { validate } else { problem.hint.clone().unwrap_or_default() };
            // The running server may serve what it had before.
            let said = match problem.message.strip_prefix("no configuration is served: ") {
                Some(why) if is_running => format!("a start would serve nothing: {why}"),
                _ => problem.message.clone(),
            };
            fail(CHECK, format!("{found}; {said}"), &hint)
        }
        // Ready or not, it does not serve what the store has: as `mixer server --dry-run`, which fails.
        (None, None) if errors > 0 || is_kept => {
            let state = match is_kept {
                true => "the server would be ready, degraded",
                false => "the server would be ready without what has an error, or with calls that fail",
            };
            fail(CHECK, format!("{found}{kept}"), &format!("{state}; {validate}"))
        }
        (None, None) if options.sample_by_default => {
            let detail = format!(
                "{found}; it is the default, because no store is given, and allows almost every call"
            );
            warn(CHECK, detail, "set --config-store-url, for example to fs:///etc/mixer")
        }
        (None, None) if snapshot.rules.is_empty() && snapshot.handlers.is_empty() => {
            let detail = format!("{found}; --allow-empty-config serves it, and allows every call");
            warn(CHECK, detail, "check the path in --config-store-url, unless every call is to be allowed")
        }
        (None, None) if warnings > 0 => warn(CHECK, found, &validate),
        (None, None) => ok(CHECK, found),
    };
    (finding, snapshot)
}

/// The cache of the last good configuration, as a start would use it, of the `user` of the server.
fn examine_cache(
    options: &ServerOptions,
    identity: &CacheIdentity,
    user: Option<ProcessUser>,
) -> (Option<CachedConfiguration>, Finding) {
    let directory = options.config_cache.as_path();
    let of_this_user = CacheDirectory(directory.to_owned());
    let name = of_this_user.name();
    let of_user = user.map(|user| CacheOfUser { directory: of_this_user.clone(), user });
    let medium: &dyn CacheMedium = match &of_user {
        Some(of_user) => of_user,
        None => &of_this_user,
    };
    let builder = SnapshotBuilder::new(options.snapshot_options());
    let check = |found: &CachedConfiguration| found.check(options.allow_empty_config, &builder);
    let read = read_cache(medium, identity);
    let cached = match read.and_then(|found| found.as_ref().map_or(Ok(()), check).map(|()| found)) {
        Ok(cached) => cached,
        Err(why) => {
            let of_another = matches!(why, CacheError::OfAnother { .. });
            let finding = match of_another {
                true => fail(CACHE, format!("nothing would serve: `{name}` is not used: {why}"), why.hint()),
                false => warn(CACHE, format!("`{name}` is ignored: {why}"), why.hint()),
            };
            return (None, finding);
        }
    };
    let writable = match &of_user {
        Some(of_user) => of_user.check_writable(),
        None => create_in(existing(directory)),
    };
    if let Err(error) = writable {
        let detail = format!("`{name}` cannot be written: {}", os_text(&error));
        return (cached, warn(CACHE, detail, "make the directory writable by the server"));
    }
    let Some(found) = cached else {
        let detail = format!("`{name}` does not exist yet; the server writes it when a configuration serves");
        return (None, ok(CACHE, detail));
    };
    let (version, count) = (found.version, found.resource_count());
    let detail = format!(
        "`{name}` has {}, format version {version}, written {} ({}); served if the configuration breaks",
        counted(count, "resource"),
        found.written,
        age(found.written)
    );
    let finding = match std::fs::metadata(&name) {
        Ok(file) if file.mode() & 0o077 != 0 => {
            let mode = file.mode() & 0o777;
            let detail = format!("{detail}; others than its owner may read it (mode {mode:04o})");
            warn(CACHE, detail, "parameters may be secret: set mode 0600")
        }
        _ => ok(CACHE, detail),
    };
    (Some(found), finding)
}

/// The directory, or the nearest one above it that exists.
fn existing(directory: &Path) -> &Path {
    let above = directory.ancestors().filter(|path| !path.as_os_str().is_empty());
    above.into_iter().find(|path| path.exists()).unwrap_or(Path::new("."))
}

/// How long ago that was, in its largest unit.
fn age(written: Timestamp) -> String {
    let now = Timestamp::from_system_time(std::time::SystemTime::now());
    let seconds = now.seconds - written.seconds;
    let units = [(86_400, "days"), (3600, "hours"), (60, "minutes"), (1, "seconds")];
    let unit = units.into_iter().find(|(length, _)| seconds >= 2 * length);
    match unit {
        _ if seconds < 0 => "in the future".to_owned(),
        Some((length, unit)) => format!("{} {unit} ago", seconds / length),
        None => "just now".to_owned(),
    }
}
