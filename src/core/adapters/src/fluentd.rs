//! Sends log entries to a server of the forward protocol, such as Fluentd or Fluent Bit.
//!
//! Reports encode their entries, hand them to a delivery and are done. The delivery sends them in batches, connects again when the
//! connection fails, and never gives a batch up: while the server is away, entries wait in the queue, and with `spillDirectory` on disk.
//!
//! Without `acknowledge`, entries are sent as Istio Mixer 1.3 does, and count as delivered once they are written: those on their way when a
//! connection ends are lost. With it, each chunk is sent again until the server has acknowledged it.

#[cfg(feature = "adapter-fluentd")]
mod entry;
#[cfg(feature = "adapter-fluentd")]
mod forward;
#[cfg(feature = "adapter-fluentd")]
mod handler;
#[cfg(feature = "adapter-fluentd")]
mod handshake;
#[cfg(feature = "adapter-fluentd")]
mod read;

use mixer_attribute::SignedDuration;
use mixer_base::secrets::mask_address;
use mixer_config::{Diagnostic, Diagnostics, FieldPath};
use mixer_engine::adapter::{
    Adapter, AdapterInfo, BackendAddress, Backends, BoundInstance, BuildError, Env, Handler, NOT_BUILT,
};

use crate::address;
use crate::client_tls::{self, Tls};
use crate::full::{self, WhenFull};

mixer_config::message! {
    /// How both ends prove that they know a key.
    pub struct SharedKey: "adapter.fluentd.config.Params_SharedKey" {
        /// File with the key; read again when it changes.
        1 key_file: String = String::new();
        /// Environment variable with the key, instead of a file.
        2 key_environment: String = String::new();
        /// The name of this client; empty: that of the host.
        3 hostname: String = String::new();
        /// The user, for servers that have some; empty: none.
        4 username: String = String::new();
        /// File with the password; read again when it changes.
        5 password_file: String = String::new();
        /// Environment variable with the password, instead of a file.
        6 password_environment: String = String::new();
    }
}

impl SharedKey {
    /// What is wrong: the field, and why.
    fn problem(&self) -> Option<(&'static str, &'static str)> {
        let one = |a: &str, b: &str| a.is_empty() != b.is_empty();
        let none = |a: &str, b: &str| a.is_empty() && b.is_empty();
        if !one(&self.key_file, &self.key_environment) {
            return Some(("sharedKey", "one of `keyFile` and `keyEnvironment` is needed"));
        }
        let (file, environment) = (&self.password_file, &self.password_environment);
        match self.username.is_empty() {
            true if !none(file, environment) => Some(("sharedKey.username", "a password belongs to a user")),
            false if !one(file, environment) => {
                Some(("sharedKey.username", "a user needs one of `passwordFile` and `passwordEnvironment`"))
            }
            _ => None,
        }
    }
}

mixer_config::message! {
    /// Parameters of the fluentd adapter.
    pub struct Params: "adapter.fluentd.config.Params" {
        /// Address of the server, `HOST:PORT`.
        1 address: String = "localhost:24224".to_owned();
        /// Durations as whole milliseconds instead of text.
        2 integer_duration: bool = false;
        /// Entries that are sent at once, without waiting for more; 0 means 1024.
        3 instance_buffer_size: i64 = 1024;
        /// Bytes of a batch at most; larger entries are dropped. 0 means 8 MiB.
        4 max_batch_size_bytes: i64 = 8 << 20;
        /// How long an entry waits for others; 0 means a minute.
        5 push_interval_duration: SignedDuration = SignedDuration::from_secs(60);
        /// The limit of writing a batch, and of waiting for its acknowledgement; 0 means a minute.
        6 push_timeout_duration: SignedDuration = SignedDuration::from_secs(60);
        /// Whether the server acknowledges each chunk. Not in Istio Mixer, as all that follow.
        1000 acknowledge: bool = false;
        /// TLS; absent: plain text.
        1001 tls: Option<Tls> = None;
        /// Size of the queue in KiB.
        1002 queue_kilobytes: u32 = 16 << 10;
        /// What happens to entries for which there is no room. With `DROP_NEWEST` their report fails.
        1003 when_full: WhenFull = WhenFull::DropNewest;
        /// How long a report waits for room, with `HOLD`.
        1004 hold_timeout: SignedDuration = full::HOLD_TIMEOUT;
        /// A directory of its own, in which entries are kept while the server is away; empty: none.
        1005 spill_directory: String = String::new();
        /// Most MiB in that directory.
        1006 spill_megabytes: u32 = 1024;
        /// A key that both ends know; absent: none.
        1007 shared_key: Option<SharedKey> = None;
    }
}

/// The adapter.
pub(crate) struct Fluentd;

impl Adapter for Fluentd {
    const INFO: AdapterInfo = AdapterInfo {
        name: "fluentd",
        about: "Sends logentries to a fluentd instance",
        templates: &["logentry"],
    };
    type Params = Params;

    fn validate(params: &Params, _: &[BoundInstance], problems: &mut Diagnostics) {
        full::validate(params.hold_timeout, problems);
        full::validate_spill(&params.spill_directory, params.spill_megabytes, problems);
        client_tls::validate(params.tls.as_ref(), problems);
        let mut problem = |path: &str, field: &str, text: &str| {
            let path = FieldPath::root().field(path);
            problems.push(Diagnostic::error("adapter-config", path, format!("{field}: {text}")));
        };
        let mut unusable = None;
        if params.address.is_empty() {
            problem("address", "address", "Address is empty");
        } else {
            match address::split(&params.address) {
                Err(why) => {
                    let text =
                        format!("Address is malformed: address {}: {why}", mask_address(&params.address));
                    problem("address", "address", &text);
                }
                // compat(1.3): found when the handler is built.
                Ok((_, port)) if port.parse::<u16>().is_err() => {
                    let shown = mask_address(port);
                    unusable = Some(format!("the port {shown:?} is not a number from 0 to 65535"));
                }
                Ok(_) => {}
            }
        }
        let positive = "Value must be a positive number";
        if params.max_batch_size_bytes < 0 {
            problem("maxBatchSizeBytes", "maxBatchBytes", positive);
        }
        if params.instance_buffer_size < 0 {
            problem("instanceBufferSize", "instanceBufferSize", positive);
        }
        for (field, duration) in [
            ("pushIntervalDuration", params.push_interval_duration),
            ("pushTimeoutDuration", params.push_timeout_duration),
        ] {
            if duration < SignedDuration::ZERO {
                problem(field, field, "Duration must be positive");
            }
        }
        if let Some((field, why)) = params.shared_key.as_ref().and_then(SharedKey::problem) {
            problem("sharedKey", field, why);
        }
        if let Some(why) = unusable {
            let text = format!("the handler will not be built: {why}");
            problems.push(Diagnostic::error(NOT_BUILT, FieldPath::root().field("address"), text));
        }
        #[cfg(not(feature = "adapter-fluentd"))]
        crate::left_out::diagnose("fluentd", problems);
    }

    fn backends(params: &Params) -> Backends {
        Backends::Addresses(vec![BackendAddress::Tcp(address::dialed(&params.address))])
    }

    #[cfg(feature = "adapter-fluentd")]
    async fn build(
        params: Params,
        instances: Vec<BoundInstance>,
        env: Env,
    ) -> Result<Box<dyn Handler>, BuildError> {
        if !params.spill_directory.is_empty() {
            crate::spills::prepare(vec![params.spill_directory.as_str().into()], &env).await?;
        }
        Ok(Box::new(handler::FluentdHandler::start(&params, &instances, &env)?))
    }

    #[cfg(not(feature = "adapter-fluentd"))]
    async fn build(_: Params, _: Vec<BoundInstance>, _: Env) -> Result<Box<dyn Handler>, BuildError> {
        Err(crate::left_out::refusal("fluentd"))
    }
}

#[cfg(test)]
#[cfg(feature = "adapter-fluentd")]
mod tests;
