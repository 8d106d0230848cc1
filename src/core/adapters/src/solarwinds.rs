//! Sends log entries to Papertrail, as syslog messages, and metrics to AppOptics, as JSON over HTTPS.
//!
//! Reports encode what they have, hand it to a delivery and are done. Each of the two has a delivery of its own, which keeps what its backend
//! does not take; without room, the oldest are dropped and counted.
//!
//! Messages and measurements are those of Istio Mixer 1.3, but for characters that would end a message.

#[cfg(feature = "adapter-solarwinds")]
mod appoptics;
#[cfg(feature = "adapter-solarwinds")]
mod handler;
#[cfg(feature = "adapter-solarwinds")]
mod papertrail;
mod validate;

use std::collections::BTreeMap;

use mixer_attribute::SignedDuration;
use mixer_config::Diagnostics;
use mixer_engine::adapter::{
    Adapter, AdapterInfo, BackendAddress, Backends, BoundInstance, BuildError, Env, Handler,
};

use crate::full::{self, WhenFull};

mixer_config::message_enum! {
    /// How messages are sent to Papertrail.
    pub enum Protocol: "adapter.solarwinds.config.Params_Protocol" {
        /// A datagram each.
        0 "UDP" Udp;
        /// Lines over one connection.
        1 "TCP" Tcp;
        /// The same with TLS.
        2 "TLS" Tls;
    }
}

mixer_config::message! {
    /// How an instance becomes a measurement.
    pub struct MetricInfo: "adapter.solarwinds.config.Params_MetricInfo" {
        /// The dimensions that become tags.
        1 label_names: Vec<String> = Vec::new();
    }
}

mixer_config::message! {
    /// How an instance becomes a message.
    pub struct LogInfo: "adapter.solarwinds.config.Params_LogInfo" {
        /// A template for the text, from the variables; empty: a line as in access logs.
        1 payload_template: String = String::new();
    }
}

mixer_config::message! {
    /// Parameters of the solarwinds adapter.
    pub struct Params: "adapter.solarwinds.config.Params" {
        /// The token of AppOptics; without any, no metric is sent.
        1 appoptics_access_token: String = String::new();
        /// Measurements of a request at most; 0 means 1000.
        2 appoptics_batch_size: i32 = 0;
        /// Address of Papertrail, `HOST:PORT`; without any, no log entry is sent.
        3 papertrail_url: String = String::new();
        /// How long a message is kept that cannot be sent; 0 and less mean an hour.
        4 papertrail_local_retention_duration: SignedDuration = SignedDuration::from_secs(3600);
        /// By the full name of the instance.
        5 metrics: BTreeMap<String, MetricInfo> = BTreeMap::new();
        /// By the full name of the instance.
        6 logs: BTreeMap<String, LogInfo> = BTreeMap::new();
        /// File with the token of AppOptics, instead of the token. Not in Istio Mixer, as all that follow.
        1000 appoptics_access_token_file: String = String::new();
        /// Environment variable with the token of AppOptics, instead of the token.
        1001 appoptics_access_token_environment: String = String::new();
        /// Where measurements are sent, instead of AppOptics.
        1002 appoptics_url: String = "https://api.appoptics.com/v1/measurements".to_owned();
        /// Any syslog server, `HOST:PORT`, instead of Papertrail.
        1003 papertrail_address: String = String::new();
        /// How messages are sent.
        1004 papertrail_protocol: Protocol = Protocol::Udp;
        /// File with the trusted roots for HTTPS and TLS, PEM; empty: those of the system.
        1005 ca_file: String = String::new();
        /// Whether what templates print is escaped as for HTML, as in Istio Mixer.
        1006 escape_html: bool = false;
        /// Size of the queue of each of metrics and messages, in KiB.
        1007 queue_kilobytes: u32 = 4096;
        /// What happens to items for which there is no room.
        1008 when_full: WhenFull = WhenFull::DropOldest;
        /// How long a report waits for room, with `HOLD`.
        1009 hold_timeout: SignedDuration = full::HOLD_TIMEOUT;
    }
}

impl Params {
    /// Where messages are sent; `None`: nowhere.
    fn log_address(&self) -> Option<&str> {
        let addresses = [self.papertrail_address.trim(), self.papertrail_url.trim()];
        addresses.into_iter().find(|address| !address.is_empty())
    }

    /// Where the tokens of AppOptics that are configured are.
    fn tokens(&self) -> impl Iterator<Item = &str> {
        let all = [
            self.appoptics_access_token.trim(),
            &self.appoptics_access_token_file,
            &self.appoptics_access_token_environment,
        ];
        all.into_iter().filter(|text| !text.is_empty())
    }
}

/// The adapter.
pub(crate) struct Solarwinds;

impl Adapter for Solarwinds {
    const INFO: AdapterInfo = AdapterInfo {
        name: "solarwinds",
        about: "Publishes metrics to appoptics and logs to papertrail",
        templates: &["logentry", "metric"],
    };
    type Params = Params;

    fn validate(params: &Params, instances: &[BoundInstance], problems: &mut Diagnostics) {
        full::validate(params.hold_timeout, problems);
        validate::validate(params, instances, problems);
        #[cfg(not(feature = "adapter-solarwinds"))]
        crate::left_out::diagnose("solarwinds", problems);
    }

    fn backends(params: &Params) -> Backends {
        let logs = params.log_address().map(|address| match params.papertrail_protocol {
            Protocol::Udp => BackendAddress::Udp(address.to_owned()),
            Protocol::Tcp | Protocol::Tls => BackendAddress::Tcp(address.to_owned()),
        });
        let has_token = params.tokens().next().is_some();
        let metrics = has_token.then(|| BackendAddress::Url(params.appoptics_url.clone()));
        Backends::Addresses(logs.into_iter().chain(metrics).collect())
    }

    #[cfg(feature = "adapter-solarwinds")]
    async fn build(
        params: Params,
        instances: Vec<BoundInstance>,
        env: Env,
    ) -> Result<Box<dyn Handler>, BuildError> {
        Ok(Box::new(handler::SolarwindsHandler::start(&params, &instances, &env)?))
    }

    #[cfg(not(feature = "adapter-solarwinds"))]
    async fn build(_: Params, _: Vec<BoundInstance>, _: Env) -> Result<Box<dyn Handler>, BuildError> {
        Err(crate::left_out::refusal("solarwinds"))
    }
}

#[cfg(test)]
#[cfg(feature = "adapter-solarwinds")]
mod tests;
