//! The settings of tracing.

use mixer_base::secrets::mask_address;

/// The collectors and the sampling rate.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TracingOptions {
    /// Zipkin collector; empty means none. JSON for a URL with `/api/v2/`, otherwise Thrift.
    pub zipkin_url: String,
    /// Jaeger collector; empty means none.
    pub jaeger_url: String,
    /// OpenTelemetry collector (OTLP over HTTP); empty means none.
    pub otlp_url: String,
    /// Whether every span is logged.
    pub log_spans: bool,
    /// Fraction of new traces that are sampled, from 0 to 1.
    pub sampling_rate: f64,
}

/// Invalid settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TracingError(pub String);

impl TracingOptions {
    /// Whether tracing is enabled.
    pub fn is_enabled(&self) -> bool {
        self.log_spans || self.urls().any(|(_, url)| !url.is_empty())
    }

    /// The collectors, by the name of their flag.
    fn urls(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [
            ("--trace-zipkin-url", &*self.zipkin_url),
            ("--trace-jaeger-url", &*self.jaeger_url),
            ("--trace-otlp-url", &*self.otlp_url),
        ]
        .into_iter()
    }

    /// Errors: Zipkin and Jaeger at once, a rate outside 0 to 1, or an invalid URL. Nothing is checked if tracing is disabled.
    pub fn check(&self) -> Result<(), TracingError> {
        if !self.is_enabled() {
            return Ok(());
        }
        if !self.zipkin_url.is_empty() && !self.jaeger_url.is_empty() {
            return Err(TracingError(
                "can't have Jaeger and Zipkin outputs active simultaneously".to_owned(),
            ));
        }
        if !(0.0..=1.0).contains(&self.sampling_rate) {
            return Err(TracingError("sampling rate must be in the range: [0.0, 1.0]".to_owned()));
        }
        for (flag, url) in self.urls().filter(|(_, url)| !url.is_empty()) {
            let shown = mask_address(url);
            let parsed = reqwest::Url::parse(url)
                .map_err(|error| TracingError(format!("{flag}: `{shown}` is not a URL: {error}")))?;
            if !matches!(parsed.scheme(), "http" | "https") {
                return Err(TracingError(format!("{flag}: `{shown}` must begin with http:// or https://")));
            }
        }
        Ok(())
    }
}

/// `key=value …`, without what is secret in the addresses.
impl std::fmt::Display for TracingOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "zipkinUrl={} jaegerUrl={} logSpans={} samplingRate={}",
            mask_address(&self.zipkin_url),
            mask_address(&self.jaeger_url),
            self.log_spans,
            self.sampling_rate
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_of_addresses_are_not_shown() {
        let shown = zipkin("http://u:pa55w@collector:9411/api").to_string();
        assert!(shown.contains("collector:9411") && !shown.contains("pa55w"), "{shown}");
        let shown = zipkin("http://collector:9411/api?k=pa55w").to_string();
        assert!(shown.contains("collector:9411/api?k=***"), "{shown}");
        let refused = zipkin("ftp://u:pa55w@collector").check().unwrap_err().to_string();
        assert!(!refused.contains("pa55w"), "{refused}");
    }

    fn zipkin(url: &str) -> TracingOptions {
        TracingOptions { zipkin_url: url.to_owned(), ..TracingOptions::default() }
    }

    #[test]
    fn invalid_settings_are_rejected() {
        assert_eq!(TracingOptions { sampling_rate: 7.0, ..TracingOptions::default() }.check(), Ok(()));
        assert_eq!(zipkin("http://zipkin:9411/api/v1/spans").check(), Ok(()));
        for (options, text) in [
            (
                TracingOptions { jaeger_url: "http://jaeger".to_owned(), ..zipkin("http://zipkin") },
                "can't have Jaeger and Zipkin outputs active simultaneously",
            ),
            (
                TracingOptions { log_spans: true, sampling_rate: f64::NAN, ..TracingOptions::default() },
                "sampling rate must be in the range: [0.0, 1.0]",
            ),
            (zipkin("zipkin"), "--trace-zipkin-url: `zipkin` is not a URL: relative URL without a base"),
            (zipkin("udp://z"), "--trace-zipkin-url: `udp://z` must begin with http:// or https://"),
        ] {
            assert_eq!(options.check().map_err(|e| e.0), Err(text.to_owned()));
        }
    }
}
