//! Problems of parameters.

use mixer_attribute::SignedDuration;
use mixer_config::{Diagnostic, Diagnostics, FieldPath};
use mixer_engine::adapter::{BoundInstance, NOT_BUILT};

use super::{Params, ServiceConfig};
use crate::url::has_host;

/// Most answers in the cache.
const MAX_CACHE: i32 = 100_000;

fn root(field: &str) -> FieldPath {
    FieldPath::root().field(field)
}

pub(super) fn validate(params: &Params, instances: &[BoundInstance], problems: &mut Diagnostics) {
    let mut error = |path: FieldPath, text: String| {
        problems.push(Diagnostic::error("adapter-config", path, text));
    };
    let runtime = root("runtimeConfig");
    match &params.runtime_config {
        None => error(runtime, "runtimeConfig: config is nil".to_owned()),
        Some(config) => {
            let path = runtime.field("checkResultExpiration");
            match config.check_result_expiration {
                None => error(path, "runtimeConfig: config.CheckResultExpiration is nil".to_owned()),
                Some(expiration) if expiration <= SignedDuration::ZERO => {
                    let text = format!("expect positive CheckResultExpiration, but get {expiration}");
                    error(path, format!("runtimeConfig: {text}"));
                }
                Some(_) => {}
            }
            if !(0..=MAX_CACHE).contains(&config.check_cache_size) {
                let text = format!("{} is not between 0 and {MAX_CACHE}", config.check_cache_size);
                error(runtime.field("checkCacheSize"), format!("runtimeConfig: checkCacheSize {text}"));
            }
        }
    }
    if params.service_configs.is_empty() {
        error(root("serviceConfigs"), "serviceConfigs: settings is nil or empty".to_owned());
    }
    for (index, service) in params.service_configs.iter().enumerate() {
        of_service(&root("serviceConfigs").index(index), service, &mut error);
    }
    if params.timeout <= SignedDuration::ZERO {
        error(root("timeout"), format!("timeout: {} is not more than 0", params.timeout));
    }
    for instance in instances.iter().filter(|instance| instance.template.name == "quota") {
        of_quota(params, instance, problems);
    }
    for (field, url) in [
        ("endpoint", &params.endpoint),
        ("tokenEndpoint", &params.token_endpoint),
        ("metadataEndpoint", &params.metadata_endpoint),
    ] {
        let is_optional = field != "endpoint";
        if !(has_host(url) || is_optional && url.is_empty()) {
            let url = mixer_base::secrets::mask_address(url);
            let text = format!("the handler will not be built: `{url}` is not http://HOST or https://HOST");
            problems.push(Diagnostic::error(NOT_BUILT, root(field), text));
        }
    }
}

fn of_service(path: &FieldPath, service: &ServiceConfig, error: &mut impl FnMut(FieldPath, String)) {
    if service.mesh_service_name.is_empty() || service.google_service_name.is_empty() {
        let text = "settings.MeshServiceName and settings.GoogleServiceName must be non-empty";
        error(path.clone(), format!("serviceConfigs: {text}"));
    }
    for (index, quota) in service.quotas.iter().enumerate() {
        let path = path.field("quotas").index(index);
        if quota.name.is_empty() {
            error(path.field("name"), "serviceConfigs: encountered an empty QuotaName".to_owned());
        }
        let path = path.field("expiration");
        match quota.expiration {
            None => error(path, "serviceConfigs: quota expiration is nil".to_owned()),
            Some(expiration) if expiration <= SignedDuration::ZERO => {
                let text = format!("quota must have positive expiration, but get {expiration}");
                error(path, format!("serviceConfigs: {text}"));
            }
            Some(_) => {}
        }
    }
}

/// A quota needs a service, a key and an operation.
fn of_quota(params: &Params, instance: &BoundInstance, problems: &mut Diagnostics) {
    let name = &*instance.name;
    let has = |dimension: &str| instance.entries("dimensions").any(|(key, _)| key == dimension);
    for dimension in ["api_key", "api_operation"].into_iter().filter(|dimension| !has(dimension)) {
        let text = format!("every call fails: dimension {dimension} not found in instance {name}");
        problems.push(Diagnostic::error("adapter-config", FieldPath::root(), text));
    }
    let all = params.service_configs.iter().flat_map(|service| &service.quotas);
    match all.filter(|quota| quota.name == name).count() {
        0 => {
            let text = format!("every call fails: no service has the quota {name}");
            let hint = "add it to the `quotas` of its service";
            let problem = Diagnostic::error("adapter-config", root("serviceConfigs"), text);
            problems.push(problem.with_hint(hint));
        }
        1 => {}
        _ if has("api_service") => {}
        _ => {
            let text = format!("every call fails: several services have the quota {name}");
            let hint = "add the dimension `api_service` to the instance: the name of the service in the mesh";
            let problem = Diagnostic::error("adapter-config", root("serviceConfigs"), text);
            problems.push(problem.with_hint(hint));
        }
    }
}
