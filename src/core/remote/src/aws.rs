//! Requests to Amazon Web Services: signed with version 4, by the credentials that AWS's own tools would use.

mod chain;
mod profiles;
mod role;
mod signature;
mod target;

pub use target::{AwsAnswer, AwsTarget};

use std::path::PathBuf;

use crate::credential::Secret;
use profiles::Profiles;

/// Where credentials and the region are looked for. Empty: where AWS's own tools look.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AwsOptions {
    /// The profile in the shared files; empty: `AWS_PROFILE`, or `default`.
    pub profile: String,
    /// The shared file with credentials; empty: `AWS_SHARED_CREDENTIALS_FILE`, or `~/.aws/credentials`.
    pub credentials_file: PathBuf,
    /// The URL at which containers get credentials; empty: `AWS_CONTAINER_CREDENTIALS_FULL_URI` or `AWS_CONTAINER_CREDENTIALS_RELATIVE_URI`.
    pub container_endpoint: String,
    /// The URL of the instance metadata service; empty: `AWS_EC2_METADATA_SERVICE_ENDPOINT`, or `http://169.254.169.254`.
    pub instance_endpoint: String,
    /// The URL of the Security Token Service, which gives keys of roles; empty: `AWS_ENDPOINT_URL_STS`, `AWS_ENDPOINT_URL`, or the public one
    /// of the region.
    pub sts_endpoint: String,
}

/// Looks up a variable of the environment; an empty one is none.
type Environment<'e> = &'e dyn Fn(&str) -> Option<String>;

/// The environment of the process.
fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// An access key.
#[derive(Debug, Clone, PartialEq, Eq)]
struct AccessKey {
    id: String,
    secret: Secret,
    /// Of temporary keys.
    token: Option<Secret>,
}

/// The region of the environment, or of the profile; `None` if neither names one. Cost: may read the shared files.
pub fn aws_region(options: &AwsOptions) -> Option<String> {
    region(options, &environment)
}

fn region(options: &AwsOptions, environment: Environment<'_>) -> Option<String> {
    environment("AWS_REGION")
        .or_else(|| environment("AWS_DEFAULT_REGION"))
        .or_else(|| Profiles::new(options, environment).region())
}

/// The URL of a service: that of the environment (`AWS_ENDPOINT_URL_…` with one of these suffixes, or `AWS_ENDPOINT_URL`), or the
/// public one in a region. `host` is the first label of its name.
pub fn aws_endpoint(suffixes: &[&str], host: &str, region: &str) -> String {
    endpoint(suffixes, host, region, &environment)
}

fn endpoint(suffixes: &[&str], host: &str, region: &str, environment: Environment<'_>) -> String {
    let of_service = suffixes.iter().find_map(|suffix| environment(&format!("AWS_ENDPOINT_URL_{suffix}")));
    of_service.or_else(|| environment("AWS_ENDPOINT_URL")).unwrap_or_else(|| {
        let domain = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
        format!("https://{host}.{region}.{domain}")
    })
}

#[cfg(test)]
mod tests;
