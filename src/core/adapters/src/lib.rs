//! The in-process adapters, one file or folder each, and their inventory.
//!
//! Only the inventory is meant for the server. Modules are public for benchmarks and tests.

mod address;
mod any;
mod authorization;
mod buckets;
mod bypass;
mod causes;
mod circonus;
mod client_tls;
mod cloudwatch;
mod cut;
#[cfg(any(feature = "adapter-dogstatsd", feature = "adapter-statsd"))]
mod datagrams;
pub mod denier;
mod dimensions;
mod dogstatsd;
mod drill;
mod external;
mod files;
mod fluentd;
mod full;
#[cfg_attr(
    not(any(
        feature = "adapter-cloudwatch",
        feature = "adapter-solarwinds",
        feature = "adapter-stackdriver",
        feature = "adapter-statsd"
    )),
    expect(dead_code, reason = "templates are only checked")
)]
mod go_template;
mod go_url;
mod health;
#[cfg(any(feature = "adapter-fluentd", feature = "adapter-solarwinds"))]
mod host;
pub mod kubernetesenv;
mod lines;
mod list;
mod memquota;
mod noop;
mod opa;
mod options;
mod otlp;
#[cfg(any(
    feature = "adapter-circonus",
    feature = "adapter-cloudwatch",
    feature = "adapter-dogstatsd",
    feature = "adapter-fluentd",
    feature = "adapter-otlp",
    feature = "adapter-servicecontrol",
    feature = "adapter-signalfx",
    feature = "adapter-solarwinds",
    feature = "adapter-stackdriver",
    feature = "adapter-statsd",
    feature = "adapter-zipkin"
))]
mod outage;
mod overrides;
pub mod prometheus;
mod quotas;
mod rbac;
mod redisquota;
#[cfg(any(
    feature = "adapter-cloudwatch",
    feature = "adapter-otlp",
    feature = "adapter-servicecontrol",
    feature = "adapter-signalfx",
    feature = "adapter-solarwinds",
    feature = "adapter-stackdriver"
))]
mod sending;
mod servicecontrol;
mod signalfx;
mod solarwinds;
#[cfg(any(feature = "adapter-fluentd", feature = "adapter-otlp"))]
mod spills;
mod stackdriver;
mod statsd;
pub mod stdio;
#[cfg(test)]
mod testing;
#[cfg(any(
    feature = "adapter-otlp",
    feature = "adapter-signalfx",
    feature = "adapter-stackdriver",
    feature = "adapter-zipkin"
))]
mod tracespan;
mod url;
#[cfg(any(feature = "adapter-otlp", feature = "adapter-servicecontrol"))]
mod uuid;
mod version;
mod zipkin;

use mixer_engine::adapter::{Erase, Inventory};
pub use options::{AdapterOptions, MetricsAddress};
pub use rbac::RbacKinds;

/// Every adapter, in name order.
pub const INVENTORY: Inventory = Inventory::new(&[
    &Erase::<bypass::Bypass>::new(),
    &Erase::<circonus::Circonus>::new(),
    &Erase::<cloudwatch::CloudWatch>::new(),
    &Erase::<denier::Denier>::new(),
    &Erase::<dogstatsd::DogStatsd>::new(),
    &Erase::<drill::Drill>::new(),
    &Erase::<fluentd::Fluentd>::new(),
    &Erase::<kubernetesenv::KubernetesEnv>::new(),
    &Erase::<list::ListChecker>::new(),
    &Erase::<memquota::Memquota>::new(),
    &Erase::<noop::Noop>::new(),
    &Erase::<opa::Opa>::new(),
    &Erase::<otlp::Otlp>::new(),
    &Erase::<prometheus::Prometheus>::new(),
    &Erase::<rbac::Rbac>::new(),
    &Erase::<redisquota::RedisQuota>::new(),
    &Erase::<servicecontrol::ServiceControl>::new(),
    &Erase::<signalfx::SignalFx>::new(),
    &Erase::<solarwinds::Solarwinds>::new(),
    &Erase::<stackdriver::Stackdriver>::new(),
    &Erase::<statsd::Statsd>::new(),
    &Erase::<stdio::Stdio>::new(),
    &Erase::<zipkin::Zipkin>::new(),
])
.with_external(&external::External);

/// An adapter that was left out of the build. Its parameters are checked all the same, and its handlers are not built.
#[cfg(any(
    test,
    not(all(
        feature = "adapter-circonus",
        feature = "adapter-cloudwatch",
        feature = "adapter-dogstatsd",
        feature = "adapter-fluentd",
        feature = "adapter-kubernetesenv",
        feature = "adapter-otlp",
        feature = "adapter-servicecontrol",
        feature = "adapter-signalfx",
        feature = "adapter-solarwinds",
        feature = "adapter-stackdriver",
        feature = "adapter-statsd",
        feature = "adapter-zipkin"
    ))
))]
mod left_out {
    use mixer_config::{Diagnostic, Diagnostics, FieldPath};
    use mixer_engine::adapter::{BuildError, NOT_BUILT};

    fn text(adapter: &str) -> String {
        format!("adapter `{adapter}` is not in this build (feature `adapter-{adapter}`)")
    }

    /// Says so when the configuration is checked.
    pub(crate) fn diagnose(adapter: &str, problems: &mut Diagnostics) {
        let text = format!("the handler will not be built: {}", text(adapter));
        problems.push(Diagnostic::error(NOT_BUILT, FieldPath::root(), text));
    }

    /// Why a handler is not built.
    pub(crate) fn refusal(adapter: &str) -> BuildError {
        BuildError::Refused(text(adapter))
    }

    /// Independent of what is left out of this build.
    #[cfg(test)]
    #[test]
    fn it_names_the_adapter_and_the_feature() {
        let expected = "adapter `statsd` is not in this build (feature `adapter-statsd`)";
        assert_eq!(refusal("statsd").to_string(), expected);
        let mut problems = Diagnostics::new();
        diagnose("statsd", &mut problems);
        let found: Vec<_> = problems.into_iter().collect();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].message, format!("the handler will not be built: {expected}"));
        assert_eq!((found[0].code, found[0].severity), (NOT_BUILT, mixer_config::Severity::Error));
    }
}

/// Evaluations of opa are bounded by what it counts, as in the program.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: mixer_base::allocation::CountingAllocator =
    mixer_base::allocation::CountingAllocator::new(std::alloc::System);

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{AdapterOptions, INVENTORY};
    use crate::testing::test_env;
    use mixer_config::{Diagnostic, Diagnostics, FieldPath, yaml};

    /// Whether an adapter is in this build.
    fn is_built(adapter: &str) -> bool {
        match adapter {
            "circonus" => cfg!(feature = "adapter-circonus"),
            "cloudwatch" => cfg!(feature = "adapter-cloudwatch"),
            "dogstatsd" => cfg!(feature = "adapter-dogstatsd"),
            "fluentd" => cfg!(feature = "adapter-fluentd"),
            "kubernetesenv" => cfg!(feature = "adapter-kubernetesenv"),
            "opa" => cfg!(feature = "adapter-opa"),
            "otlp" => cfg!(feature = "adapter-otlp"),
            "redisquota" => cfg!(feature = "adapter-redisquota"),
            "servicecontrol" => cfg!(feature = "adapter-servicecontrol"),
            "signalfx" => cfg!(feature = "adapter-signalfx"),
            "solarwinds" => cfg!(feature = "adapter-solarwinds"),
            "stackdriver" => cfg!(feature = "adapter-stackdriver"),
            "statsd" => cfg!(feature = "adapter-statsd"),
            "zipkin" => cfg!(feature = "adapter-zipkin"),
            _ => true,
        }
    }

    /// Features as Cargo.toml names them, of adapters.
    fn features() -> impl Iterator<Item = &'static str> {
        let manifest = include_str!("../Cargo.toml");
        manifest
            .lines()
            .filter_map(|line| line.strip_prefix("adapter-")?.split_once(" = ").map(|(name, _)| name))
    }

    #[test]
    fn every_feature_is_an_adapter_that_can_be_left_out() {
        let mut found: Vec<&str> = features().collect();
        found.sort_unstable();
        assert!(found.len() >= 14, "{found:?}");
        for name in found {
            assert!(INVENTORY.find(name).is_some(), "{name}");
            // Of a build with everything, the source tells what one without it says; `.ci/run test` runs one.
            let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
            let read = |path: String| std::fs::read_to_string(root.join(path)).unwrap_or_default();
            let (source, absent) = (read(format!("{name}.rs")), read(format!("{name}/absent.rs")));
            let says = source.contains(&format!("left_out::diagnose(\"{name}\""))
                && source.contains(&format!("left_out::refusal(\"{name}\""));
            let missing = format!("adapter `{name}` is not in this build (feature `adapter-{name}`)");
            assert!(says || absent.contains(&missing), "{name}");
        }
    }

    /// Of a build without features, everything that can be left out.
    #[tokio::test]
    async fn an_adapter_that_was_left_out_is_named() {
        let mut left_out = 0;
        for adapter in INVENTORY.iter().filter(|adapter| !is_built(adapter.info().name)) {
            left_out += 1;
            let name = adapter.info().name;
            let expected = format!("adapter `{name}` is not in this build (feature `adapter-{name}`)");
            let (params, _) = adapter.decode(None, FieldPath::root());
            let mut problems = Diagnostics::new();
            adapter.validate(&params, &[], &mut problems);
            let says = |problem: &Diagnostic| problem.message.contains(&expected);
            assert_eq!(problems.into_iter().filter(|problem| says(problem)).count(), 1, "{name}");
            let error = adapter.build(&params, Vec::new(), test_env("h.istio-system")).await.err().unwrap();
            assert_eq!(error.to_string(), expected);
        }
        assert_eq!(left_out, features().filter(|name| !is_built(name)).count());
    }

    #[test]
    fn parameters_take_a_small_multiple_of_their_text() {
        use mixer_base::allocation::{Bounds, metered};

        let items = |item: fn(usize) -> String| (0..5000).map(item).collect::<Vec<_>>().join(",");
        let quotas = items(|n| format!("{{dimensions: {{a: x{n:x}}}, maxAmount: 1}}"));
        let metrics =
            items(|n| format!("{{name: m{n:x}, instanceName: x{n:x}, kind: COUNTER, labelNames: [a,b]}}"));
        let entries = items(|n| format!("x{n:x}"));
        // How many times the text the tree takes, and the parameters beside it.
        for (adapter, text, of_tree, of_params) in [
            ("memquota", format!("quotas: [{{name: q, maxAmount: 5, overrides: [{quotas}]}}]"), 12, 5),
            ("redisquota", format!("quotas: [{{name: q, maxAmount: 5, overrides: [{quotas}]}}]"), 12, 5),
            ("prometheus", format!("metrics: [{metrics}]"), 12, 8),
            ("listchecker", format!("overrides: [{entries}]"), 20, 10),
        ] {
            let adapter = INVENTORY.find(adapter).unwrap();
            let all = || Bounds::of(1 << 30);
            let (tree, usage) = metered(all(), || yaml::parse(&text).unwrap().root);
            let times = usage.left as f64 / text.len() as f64;
            assert!(times < f64::from(of_tree), "{}: the tree takes {times}", adapter.info().name);
            let ((params, errors), usage) = metered(all(), || adapter.decode(Some(&tree), FieldPath::root()));
            assert!(errors.is_empty(), "{:?}", errors.first());
            let times = usage.left as f64 / text.len() as f64;
            assert!(times < f64::from(of_params), "{}: the parameters take {times}", adapter.info().name);
            // Nothing is kept of what tells them from others.
            let (length, usage) = metered(all(), || {
                let mut length = 0;
                params.write_json(&mut |part| length += part.len());
                length
            });
            assert!(length > text.len() && usage.left < 1000, "{length}, {}", usage.left);
        }
    }

    #[test]
    fn the_inventory_is_consistent() {
        assert_eq!(INVENTORY.self_check(), Ok(()));
    }

    #[tokio::test]
    async fn every_handler_implements_what_its_adapter_claims() {
        for adapter in INVENTORY.iter().filter(|adapter| is_built(adapter.info().name)) {
            // Without a policy a handler of opa is built only as Istio Mixer does, to deny everything; there, redisquota needs Redis.
            let is_opa = adapter.info().name == "opa";
            let kubeconfig = tempfile::NamedTempFile::new().unwrap();
            let nobody = "current-context: c\ncontexts: [{name: c, context: {cluster: c}}]\n\
                          clusters: [{name: c, cluster: {server: 'http://localhost:1'}}]\n";
            std::fs::write(kubeconfig.path(), nobody).unwrap();
            let of_nobody =
                format!("{{kubeconfigPath: '{}', syncTimeout: 1ms}}", kubeconfig.path().display());
            let text = match adapter.info().name {
                "opa" => "failClose: true",
                "circonus" => "submissionUrl: 'http://localhost:1/'",
                "kubernetesenv" => &of_nobody,
                "cloudwatch" => "region: eu-west-1",
                "stackdriver" => "projectId: mesh",
                // Nobody is there.
                "redisquota" => "redisServerUrl: 'localhost:1'",
                _ => "{}",
            };
            let node = yaml::parse(text).unwrap().root;
            let (params, errors) = adapter.decode(Some(&node), FieldPath::root());
            assert!(errors.is_empty());
            // The build itself refuses a handler that lacks a trait.
            let env = test_env("h.istio-system");
            env.commons.insert(Arc::new(AdapterOptions { as_istio_mixer: is_opa }));
            let handler = adapter.build(&params, Vec::new(), env).await;
            let handler = handler.unwrap_or_else(|e| panic!("{}: {e}", adapter.info().name));
            handler.close(std::time::Duration::from_secs(5)).await.unwrap();
        }
    }
}
