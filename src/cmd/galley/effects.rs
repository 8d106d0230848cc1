//! Flags of `galley server` that have no effect beside others.

use super::server::GalleyServerArgs;
use crate::cmd::exit::Failure;
use crate::cmd::flags::{self, Lost};

/// A row of the table.
type Row = Lost<GalleyServerArgs>;

fn is_empty(path: &std::path::Path) -> bool {
    path.as_os_str().is_empty()
}

fn reads_files(args: &GalleyServerArgs) -> bool {
    !is_empty(&args.source.config_path)
}

fn has_zookeeper(args: &GalleyServerArgs) -> bool {
    args.registries.zookeeper_address.iter().any(|address| !address.is_empty())
}

fn has_eureka(args: &GalleyServerArgs) -> bool {
    args.registries.eureka_address.iter().any(|address| !address.is_empty())
}

fn calls_sinks(args: &GalleyServerArgs) -> bool {
    args.serving.sink_address.iter().any(|address| !address.is_empty())
}

/// All of them. Flags that Galley documents to be without effect are not listed.
const ALL: &[Row] = &[
    Row::protecting(
        &["access-list-file"],
        |args| args.serving.insecure,
        "--insecure serves sinks without certificates, whoever they are; omit one of the two",
    ),
    Row::idle(
        &["tls-cert-file", "tls-key-file", "ca-cert-file"],
        // The webhook has the same certificates, and so have calls to sinks: who turns these off has not asked for TLS by it.
        |args| args.serving.insecure && !args.validation.enable_validation && !calls_sinks(args),
        "--insecure serves sinks without TLS; omit one of the two",
    ),
    Row::idle(
        &["ctrlz-token-file", "ctrlz-readonly", "ctrlz-allowed-hosts", "ctrlz-address"],
        |args| args.operations.ctrlz_port == 0,
        "--ctrlz-port 0 turns ControlZ off",
    ),
    Row::idle(
        &[
            "server-address",
            "server-max-received-message-size",
            "server-max-concurrent-streams",
            "memory-limit",
            "insecure",
            "access-list-file",
            "incremental",
            "legacy-mcp",
            "sink-address",
            "config-path",
            "config-cache",
            "zookeeper-address",
            "eureka-address",
        ],
        |args| !args.serving.enable_server,
        "--enable-server=false reads and serves no configuration",
    ),
    Row::idle(
        &["sink-auth-mode", "sink-meta"],
        |args| !calls_sinks(args),
        "it is for sinks that are called: --sink-address names them",
    ),
    Row::idle(
        &["resync-period", "disable-resource-ready-check"],
        reads_files,
        "it is for a cluster, and --config-path names files",
    ),
    Row::idle(
        &["watch-config-files", "allow-empty-config"],
        |args| !reads_files(args),
        "it is for files, which --config-path names",
    ),
    Row::idle(
        &[
            "zookeeper-root",
            "zookeeper-session-timeout",
            "zookeeper-namespace",
            "zookeeper-user",
            "zookeeper-password-file",
            "zookeeper-ca-cert-file",
            "zookeeper-cert-file",
            "zookeeper-key-file",
        ],
        |args| !has_zookeeper(args),
        "there is no --zookeeper-address",
    ),
    Row::idle(
        &[
            "eureka-refresh",
            "eureka-timeout",
            "eureka-namespace",
            "eureka-service-port",
            "eureka-user",
            "eureka-password-file",
            "eureka-ca-cert-file",
            "eureka-cert-file",
            "eureka-key-file",
        ],
        |args| !has_eureka(args),
        "there is no --eureka-address",
    ),
    Row::idle(
        &[
            "validation-port",
            "validation-depth",
            "validation-webhook-config-file",
            "enable-reconcile-webhook-configuration",
            "webhook-name",
            "deployment-namespace",
            "deployment-name",
            "service-name",
        ],
        |args| !args.validation.enable_validation,
        "--enable-validation=false turns the webhook off",
    ),
    Row::idle(
        &["validation-webhook-config-file", "webhook-name"],
        |args| args.validation.enable_validation && !args.validation.enable_reconcile_webhook_configuration,
        "--enable-reconcile-webhook-configuration=false leaves the configuration of the cluster alone",
    ),
    Row::idle(&["pprof-port"], |args| !args.operations.enable_profiling, "profiles need --enable-profiling"),
    Row::idle(
        &["monitoring-port"],
        |args| !args.operations.monitoring_address.is_empty(),
        "--monitoring-address names the port",
    ),
    Row::idle(
        &["liveness-probe-interval"],
        |args| is_empty(&args.operations.liveness_probe_path),
        "there is no --liveness-probe-path",
    ),
    Row::idle(
        &["readiness-probe-interval"],
        |args| is_empty(&args.operations.readiness_probe_path),
        "there is no --readiness-probe-path",
    ),
    Row::idle(
        &["log-rotate-max-size", "log-rotate-max-age", "log-rotate-max-backups"],
        |args| !args.given.has("log-rotate"),
        "there is no --log-rotate",
    ),
];

/// The warnings about flags that are given and have no effect. Errors: one of them would protect something.
pub(super) fn lost(args: &GalleyServerArgs) -> Result<Vec<String>, Failure> {
    flags::lost(ALL, &args.given, args)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Alone {
        #[command(flatten)]
        args: GalleyServerArgs,
    }

    fn told(flags: &[&str]) -> Result<Vec<String>, String> {
        let parsed = Alone::try_parse_from([&["server"], flags].concat()).unwrap_or_else(|e| panic!("{e}"));
        lost(&parsed.args).map_err(|failure| format!("{failure:?}"))
    }

    #[test]
    fn every_flag_of_the_table_exists_and_is_told() {
        use clap::CommandFactory as _;
        let command = Alone::command();
        for flag in ALL.iter().flat_map(Row::flags) {
            assert!(command.get_arguments().any(|arg| arg.get_long() == Some(flag)), "--{flag}");
        }
    }

    #[test]
    fn flags_without_effect_are_told_by_what_takes_it() {
        assert_eq!(told(&[]), Ok(Vec::new()));
        for (flags, name) in [
            (&["--ctrlz-port", "0", "--ctrlz-readonly"][..], "--ctrlz-readonly"),
            (&["--enable-server=false", "--server-address", "127.0.0.1:1"], "--server-address"),
            (&["--sink-meta", "a=b"], "--sink-meta"),
            (&["--config-path", "/p", "--resync-period", "5s"], "--resync-period"),
            (&["--allow-empty-config"], "--allow-empty-config"),
            (&["--zookeeper-password-file", "/p"], "--zookeeper-password-file"),
            (&["--eureka-refresh", "5s"], "--eureka-refresh"),
            (&["--enable-validation=false", "--validation-port", "9443"], "--validation-port"),
            (&["--enable-reconcile-webhook-configuration=false", "--webhook-name", "x"], "--webhook-name"),
            (&["--pprof-port", "9094"], "--pprof-port"),
            (&["--monitoring-port", "1", "--monitoring-address", "127.0.0.1:2"], "--monitoring-port"),
            (&["--liveness-probe-path=", "--liveness-probe-interval", "3s"], "--liveness-probe-interval"),
            (&["--log-rotate-max-age", "3"], "--log-rotate-max-age"),
            (&["--insecure", "--enable-validation=false", "--ca-cert-file", "/roots"], "--ca-cert-file"),
        ] {
            let told = told(flags).unwrap();
            assert!(told.len() == 1 && told[0].starts_with(&format!("{name} has no effect: ")), "{told:?}");
        }
        for mended in [
            &["--ctrlz-readonly"][..],
            &["--server-address", "127.0.0.1:1"],
            &["--sink-meta", "a=b", "--sink-address", "a:1"],
            &["--allow-empty-config", "--config-path", "/p"],
            &["--enable-profiling", "--pprof-port", "9094"],
            &["--log-rotate-max-age", "3", "--log-rotate", "/l"],
            // The webhook has them.
            &["--insecure", "--tls-cert-file", "/c"],
            &["--insecure"],
        ] {
            assert_eq!(told(mended), Ok(Vec::new()), "{mended:?}");
        }
    }

    #[test]
    fn protection_that_is_not_there_is_an_error() {
        let told = told(&["--insecure", "--access-list-file", "/list"]).unwrap_err();
        assert!(told.contains(" has no effect: --insecure serves sinks"), "{told}");
    }
}
